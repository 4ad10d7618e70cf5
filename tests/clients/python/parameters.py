"""The fields that the installed openai-python knows of a create and of a response."""

import typing

from case import report
from openai.types.responses import Response, response_create_params

PARTS = (response_create_params.ResponseCreateParamsBase, response_create_params.ResponseCreateParamsStreaming)

report(
    create=sorted({name for part in PARTS for name in typing.get_type_hints(part)}),
    response=sorted(Response.model_fields),
)
