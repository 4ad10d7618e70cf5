"""openai-python over HTTP: conversations are made, listed, edited, talked in by one at a time, and deleted."""

from case import API_KEY, BASE_URL, WAIT_S, report
from openai import ConflictError, NotFoundError, OpenAI


def said(client: OpenAI, conversation_id: str) -> list[str]:
    items = client.conversations.items.list(conversation_id, order="asc", limit=2, include=[])
    return [item.content[0].text for item in items]  # it turns the pages by itself


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=API_KEY, timeout=WAIT_S)
    assert client.conversations.delete(client.conversations.create().id).deleted
    made = client.conversations.create(
        metadata={"topic": "demo"}, items=[{"type": "message", "role": "user", "content": "hi"}]
    )
    assert client.conversations.update(made.id, metadata={"topic": "other"}).metadata == {"topic": "other"}
    assert client.conversations.retrieve(made.id).metadata == {"topic": "other"}

    first = client.responses.create(model="antiphon/echo", input="one", conversation=made.id)
    assert first.conversation.id == made.id and first.output_text == "one"
    events = list(
        client.responses.create(model="antiphon/echo", input="two", conversation={"id": made.id}, stream=True)
    )
    before = said(client, made.id)
    counted = client.responses.input_tokens.count(model="antiphon/echo", input="three", conversation=made.id)
    assert counted.input_tokens == 6, "a built-in model counts words"

    running = client.responses.create(
        model="antiphon/demo", input="long " * 200, conversation=made.id, background=True
    )
    try:
        client.responses.create(model="antiphon/echo", input="meanwhile", conversation=made.id)
        locked = None
    except ConflictError as error:
        locked = error.code
    client.responses.cancel(running.id)
    left = [item.id for item in client.conversations.items.list(made.id, order="asc")][len(before) :]
    (oldest, *_) = client.conversations.items.list(made.id, order="asc")
    for item_id in [oldest.id, *left]:
        assert client.conversations.items.delete(item_id, conversation_id=made.id).id == made.id
    added = client.conversations.items.create(
        made.id, items=[{"type": "message", "role": "user", "content": "more"}]
    )
    found = client.conversations.items.retrieve(added.data[0].id, conversation_id=made.id)
    assert found.content[0].text == "more", found
    client.conversations.items.delete(found.id, conversation_id=made.id)
    after = said(client, made.id)

    client.conversations.delete(made.id)
    try:
        client.conversations.retrieve(made.id)
        gone = None
    except NotFoundError as error:
        gone = error.code
    report(runs=[events], said=before, after=after, locked=locked, gone=gone)


main()
