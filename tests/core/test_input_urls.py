"""URLs of inputs: what leads into a network is refused however it is written, what is public or data is taken."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.input_urls import check_input_urls, leads_outside
from antiphon.errors import RequestError


@pytest.mark.parametrize(
    "url",
    [
        "https://images.example/cat.png",
        "http://images.example:8080/cat.png?x=1#y",
        "HTTPS://Images.Example./cat.png",
        "https://user:word@images.example/cat.png",
        "https://1.1.1.1/cat.png",
        "https://[2606:4700:4700::1111]/cat.png",
        "https://local.example/",
        "https://xn--bcher-kva.example/",
        "https://bücher.example/",
        "data:image/png;base64,AAAA",
        "DATA:image/png;base64,AAAA\n",
    ],
)
def test_public_addresses_and_data_are_taken(url: str) -> None:
    assert leads_outside(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.0.0.1:8787/v1/models",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://100.64.0.1/",
        "http://0.0.0.0/",
        "http://0/",
        "http://224.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://①②⑦.⓪.⓪.①/",
        "http://127。0。0。1/",
        "http://127%2e0.0.1.example/",
        "http://[::1]/",
        "http://[::]/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://db.localhost/",
        "http://printer.local/",
        "http://metadata.google.internal/",
        "http://nas.home.arpa/",
        "http://redis/",
        "http://user@127.0.0.1/",
        "http://images.example@127.0.0.1/",
        "http://images.example\\@127.0.0.1/",
        "http://127.0.0.1\\@images.example/",
        "http://images.example/\r\nhost: x",
        " http://images.example/",
        "http:///etc/passwd",
        "http://[",
        "http://",
        "//127.0.0.1/",
        "file:///etc/passwd",
        "ftp://images.example/",
        "gopher://images.example/",
        "/etc/passwd",
        "javascript:alert(1)",
        "",
    ],
)
def test_what_leads_into_a_network_is_refused_however_it_is_written(url: str) -> None:
    assert not leads_outside(url)


def message(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}, part]}]


INSIDE = "http://127.0.0.1/x"


@pytest.mark.parametrize(
    "items",
    [
        message({"type": "input_image", "image_url": INSIDE}),
        message({"type": "input_file", "file_url": INSIDE}),
        message({"type": "image_url", "image_url": {"url": INSIDE}}),
        [{"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": INSIDE}}],
        [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": INSIDE}]}],
        [{"role": "user", "content": [[{"image_url": INSIDE}]]}],
    ],
)
def test_a_url_is_found_wherever_an_input_may_have_one(items: list[Any]) -> None:
    with pytest.raises(RequestError) as refusal:
        check_input_urls(items)
    error = refusal.value
    assert (error.status, error.code, error.param) == (400, "input_url_not_allowed", "input")
    assert INSIDE not in error.message


def test_text_that_names_a_private_address_is_text() -> None:
    check_input_urls(message({"type": "input_text", "text": INSIDE}))
    check_input_urls([{"type": "function_call", "arguments": f'{{"image_url":"{INSIDE}"}}'}])
    check_input_urls(["no item", None, 3])
    check_input_urls(message({"type": "input_image", "file_id": "file_1", "image_url": None}))


def test_deep_nesting_is_no_recursion() -> None:
    items: list[Any] = []
    for _ in range(100_000):
        items = [items]
    check_input_urls(items)
