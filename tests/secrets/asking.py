"""Asks for everything that the careless application does, some of it at once. python -m asking"""

import leaky  # type: ignore[import-not-found]

said = leaky.PLANTED


def main() -> None:
    leaky.by_client.using(owner="ann").enqueue(said["argument"], f"my password is {said['prompt']}")
    leaky.by_address.enqueue(
        f"{leaky.GATEWAY.replace('://', '://ann:' + said['user'] + '@')}/things?sig={said['query']}"
    )
    leaky.by_names.using(
        key=f"https://store.example/{said['round']}.pdf?X-Signature={said['key']}",
        request_id=f"password={said['request_id']}",
    ).enqueue(f"https://ann:{said['upstream']}@api.example/v1?sig={said['upstream']}")
    leaky.by_words.enqueue("ann")
    leaky.by_a_process.enqueue(said["argument"])
    leaky.by_answer.enqueue(said["argument"])
    leaky.well.enqueue(said["argument"])
    leaky.by_client.using(request_id="r-1").call_or_enqueue(said["argument"])
    run = leaky.leaking.run(
        [{"token": said["argument"]}], name=f"leaks {said['round']} of token={said['run']}"
    )
    assert run.id
    leaky.app.close()


if __name__ == "__main__":
    main()
