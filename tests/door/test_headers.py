"""Headers that tell browsers what an answer may not be used for."""

from __future__ import annotations

from tests.http.calling import begin, body, ended, http, key_of
from tests.support.server import running_server

SECRET = "sk-test-headers"
KEYS = {"auth": "required", "key": [key_of(SECRET)]}


async def test_pages_may_be_framed_and_opened_by_nobody_and_load_nothing_of_others() -> None:
    async with running_server() as server, http(server) as client:
        for path in ("/", "/css/chat.css", "/js/chat/main.js"):
            headers = (await client.get(path)).headers
            policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
            assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'", path
            assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'", path
            assert headers["x-frame-options"] == "DENY"
            assert headers["cross-origin-opener-policy"] == "same-origin"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["referrer-policy"] == "no-referrer"
            assert "camera=()" in headers["permissions-policy"]
            assert headers.get_list("x-content-type-options") == ["nosniff"]


async def test_what_the_api_answers_is_sniffed_by_nobody_and_in_no_cache() -> None:
    async with running_server(**KEYS) as server, http(server, SECRET) as client:
        response_id = await begin(server, key=SECRET)
        answers = [
            await client.get(f"/v1/responses/{response_id}"),
            await client.get(f"/v1/responses/{response_id}/input_items"),
            await client.get("/v1/models"),
            await client.post("/v1/responses", json=body()),
            await client.get("/v1/responses/resp_unknown"),
            await client.get("/v1/nothing"),
            await client.get("/v1/models", headers={"authorization": "Bearer wrong"}),
            await client.get("/v1/models", headers={"host": "evil.example"}),
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 404, 404, 401, 403]
        for answer in answers:
            assert answer.headers["cache-control"] == "no-store", answer.url
            assert answer.headers.get_list("x-content-type-options") == ["nosniff"], answer.url
        await ended(server, response_id, SECRET)
        stream = await client.get(f"/v1/responses/{response_id}", params={"stream": "true"})
        assert stream.text.endswith("data: [DONE]\n\n")
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers.get_list("x-content-type-options") == ["nosniff"]


async def test_no_answer_tells_what_the_server_runs_on() -> None:
    async with running_server() as server, http(server) as client:
        for path in ("/", "/v1/models", "/health"):
            headers = (await client.get(path)).headers
            assert "server" not in headers and "x-powered-by" not in headers


async def test_a_path_that_no_file_can_have_is_not_found_whatever_the_method() -> None:
    async with running_server() as server, http(server) as client:
        for method in ("GET", "POST", "HEAD"):
            for path in (
                "/%00",
                "/js/%00.js",
                "/..%2f..%2fetc/passwd",
                "/%2e%2e/%2e%2e/etc/passwd",
                f"/{'a' * 5000}",
            ):
                assert (await client.request(method, path)).status_code == 404, (method, path)
