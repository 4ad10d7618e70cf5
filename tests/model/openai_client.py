"""openai-python against the small model: a text over the stream helper, and an answer read into a class."""

import json
import sys

from openai import OpenAI
from pydantic import BaseModel, Field


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int


def main() -> None:
    client = OpenAI(base_url=sys.argv[1], api_key="any", timeout=30, max_retries=0)
    with client.responses.stream(
        model="small-chat", input="Say hello.", temperature=0, max_output_tokens=64
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        said = stream.get_final_response().output_text
    assert said == "".join(deltas), (said, deltas)
    parsed = client.responses.parse(
        model="small-chat", input="Bob is 31.", text_format=Person, temperature=0, max_output_tokens=64
    )
    person = parsed.output_parsed
    print(json.dumps({"deltas": len(deltas), "person": person.model_dump() if person is not None else None}))


main()
