"""openai-python over HTTP: background runs are left, found again, read from any number, cancelled, deleted."""

import time

from case import API_KEY, BASE_URL, WAIT_S, report
from openai import NotFoundError, OpenAI

TEXT = " ".join(f"word{number}" for number in range(40))


def poll(client: OpenAI, response_id: str):
    """As the guide tells users to: ask again until it is over."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        response = client.responses.retrieve(response_id)
        if response.status not in ("queued", "in_progress"):
            return response
        time.sleep(0.05)
    raise AssertionError(f"still {response.status}")


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S, max_retries=0)

    head = []
    stream = client.responses.create(model="antiphon/echo", input=TEXT, background=True, stream=True)
    for event in stream:
        head.append(event)
        if event.sequence_number == 5:
            break
    stream.close()
    response_id = head[0].response.id
    tail = list(client.responses.retrieve(response_id, stream=True, starting_after=5))
    again = list(client.responses.retrieve(response_id, stream=True))
    assert [e.to_dict() for e in again] == [e.to_dict() for e in head + tail]

    polled = client.responses.create(model="antiphon/echo", input=TEXT, background=True)
    assert polled.status in ("queued", "in_progress"), polled.status
    done = poll(client, polled.id)
    assert (done.status, done.output_text) == ("completed", TEXT), done

    items = client.responses.input_items.list(polled.id)
    assert [part.text for item in items for part in item.content] == [TEXT], items

    long = client.responses.create(model="antiphon/demo", input=TEXT, background=True)
    cancelled = [client.responses.cancel(long.id).status for _ in range(2)]
    assert poll(client, long.id).status == "cancelled"

    client.responses.delete(polled.id)
    try:
        client.responses.retrieve(polled.id)
    except NotFoundError:
        gone = True
    else:
        gone = False
    cut = list(client.responses.retrieve(long.id, stream=True))
    report(runs=[head + tail, again, cut], cancelled=cancelled, gone=gone)


main()
