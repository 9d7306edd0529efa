"""Does what the lines of its input say with the client of RocketMQ 4, and prints what happens; see the README beside
the languages."""

import os
import sys
import threading
import time
from urllib.parse import parse_qs, urlencode

from rocketmq.client import (  # type: ignore[import-untyped]
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    RecvMessage,
    SendResult,
)

Command = dict[str, str]
Every = dict[str, list[str]]
Answer = dict[str, object]
NAMES = ("TAGS", "KEYS", "UNIQ_KEY")


def show(event: str, **pairs: object) -> None:
    os.write(1, urlencode({"event": event, **pairs}).encode() + b"\n")


class Driver:
    """The producers and consumers of one process, by name."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.running: dict[str, Producer | PushConsumer] = {}

    def carry_out(self, command: Every) -> Answer:
        """Carry out one command and return what its answer says."""
        carry_out = getattr(self, f"do_{command['op'][0]}")
        return carry_out({name: values[0] for name, values in command.items()}, command) or {}

    def do_producer(self, command: Command, _all: Every) -> None:
        producer = Producer(command["group"], timeout=30000)
        self._start(producer, command)

    def do_send(self, command: Command, every: Every) -> Answer:
        producer = self.running[command["name"]]
        answer: Answer = {}
        for body in every["body"]:
            message = message_of(command, body)
            mode = command.get("mode", "sync")
            if mode == "sync":
                answer = described(producer.send_sync(message))
            elif mode == "oneway":
                producer.send_oneway(message)
            elif mode == "ordered":
                answer = described(producer.send_orderly(message, sum(command["order"].encode())))
            elif mode == "async":
                answer = send_asynchronously(producer, message)
            else:
                raise ValueError(mode)
        return answer

    def do_batch(self, command: Command, every: Every) -> Answer:
        producer = self.running[command["name"]]
        return described(producer.send_batch([message_of(command, body) for body in every["body"]]))

    def do_push(self, command: Command, every: Every) -> None:
        consumer = PushConsumer(command["group"], orderly="orderly" in command)
        consumer.set_instance_name(command["name"])
        # The library calls back from threads of its own; one of them at a time keeps its counters right.
        consumer.set_thread_count(1)

        def listen(message: RecvMessage) -> None:
            show_got(command["name"], message)
            if fails(message):
                raise RuntimeError("as the body says")

        for topic in every["topic"]:
            consumer.subscribe(topic, listen, command.get("tags", "*"))
        self._start(consumer, command)

    def do_pull(self, command: Command, _all: Every) -> Answer:
        consumer = PullConsumer(command["group"])
        consumer.set_namesrv_addr(self.address)
        consumer.start()
        count = 0
        for message in consumer.pull(command["topic"], command.get("tags", "*")):
            show_got(command["name"], message)
            count += 1
        consumer.shutdown()
        return {"count": count}

    def do_stop(self, command: Command, _all: Every) -> None:
        self.running.pop(command["name"]).shutdown()

    def _start(self, client: Producer | PushConsumer, command: Command) -> None:
        client.set_namesrv_addr(self.address)
        if "access_key" in command:
            client.set_session_credentials(command["access_key"], command["secret_key"], "")
        client.start()
        self.running[command["name"]] = client


def message_of(command: Command, body: str) -> Message:
    message = Message(command["topic"])
    message.set_body(body)
    if "tag" in command:
        message.set_tags(command["tag"])
    if "keys" in command:
        message.set_keys(command["keys"])
    if "delay" in command:
        message.set_delay_time_level(int(command["delay"]))
    for name, value in command.items():
        if name.startswith("p."):
            message.set_property(name[2:], value)
    return message


def described(result: SendResult) -> Answer:
    return {"status": f"SEND_{result.status.name}", "id": result.msg_id, "offset": result.offset}


def send_asynchronously(producer: Producer, message: Message) -> Answer:
    done, outcome = threading.Event(), Answer()

    def succeed(result: SendResult) -> None:
        outcome.update(described(result))
        done.set()

    def fail(error: Exception) -> None:
        outcome.update(error=str(error))
        done.set()

    producer.send_async(message, succeed, fail)
    if not done.wait(20):
        raise TimeoutError("no callback came")
    return outcome


def fails(message: RecvMessage) -> bool:
    """Messages whose body begins with "fail-N-" fail N times; those with "poison-" always."""
    body: str = message.body.decode()
    if body.startswith("fail-"):
        return int(message.reconsume_times) < int(body.split("-")[1])
    return body.startswith("poison-")


def show_got(name: str, message: RecvMessage) -> None:
    # The client tells no names of properties; a test says which it wants.
    wanted = (*NAMES, *filter(None, os.environ.get("DRIVER_PROPERTIES", "").split(",")))
    pairs = {f"p.{each}": value.decode() for each in wanted if (value := message[each])}
    show(
        "got",
        name=name,
        topic=message.topic,
        body=message.body.decode(),
        tag=(message.tags or b"").decode(),
        keys=(message.keys or b"").decode(),
        id=message.id,
        queue=message.queue_id,
        offset=message.queue_offset,
        times=message.reconsume_times,
        born=message.born_timestamp,
        stored=message.store_timestamp,
        clock=int(time.time() * 1000),
        **pairs,
    )


def main() -> None:
    driver = Driver(sys.argv[1])
    for line in sys.stdin:
        command = parse_qs(line.strip(), keep_blank_values=True)
        try:
            answer = driver.carry_out(command)
        except Exception as error:  # noqa: BLE001 - the test is told
            answer = {"error": repr(error)}
        show("done", number=command["number"][0], **answer)
    os._exit(0)


if __name__ == "__main__":
    main()
