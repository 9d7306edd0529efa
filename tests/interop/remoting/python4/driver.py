"""Does what the lines of its input say with the client of RocketMQ 4, and prints what happens; see the README beside
the languages."""

import os
import sys
import threading
import time
from urllib.parse import parse_qs, urlencode

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

NAMES = ("TAGS", "KEYS", "UNIQ_KEY")


def show(event, **pairs):
    os.write(1, urlencode({"event": event, **pairs}).encode() + b"\n")


class Driver:
    """The producers and consumers of one process, by name."""

    def __init__(self, address):
        self.address = address
        self.running = {}

    def carry_out(self, command):
        """Carry out one command and return what its answer says."""
        made = getattr(self, f"do_{command['op'][0]}")
        return made({name: values[0] for name, values in command.items()}, command) or {}

    def do_producer(self, command, _all):
        producer = Producer(command["group"], timeout=10000)
        self._start(producer, command)

    def do_send(self, command, every):
        producer = self.running[command["name"]]
        answer = {}
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

    def do_batch(self, command, every):
        producer = self.running[command["name"]]
        return described(producer.send_batch([message_of(command, body) for body in every["body"]]))

    def do_push(self, command, every):
        consumer = PushConsumer(command["group"], orderly="orderly" in command)
        consumer.set_instance_name(command["name"])
        # The library calls back from threads of its own; one of them at a time keeps its counters right.
        consumer.set_thread_count(1)

        def listen(message):
            show_got(command["name"], message)
            if fails(message):
                raise RuntimeError("as the body says")

        for topic in every["topic"]:
            consumer.subscribe(topic, listen, command.get("tags", "*"))
        self._start(consumer, command)

    def do_pull(self, command, _all):
        consumer = PullConsumer(command["group"])
        consumer.set_namesrv_addr(self.address)
        consumer.start()
        count = 0
        for message in consumer.pull(command["topic"], command.get("tags", "*")):
            show_got(command["name"], message)
            count += 1
        consumer.shutdown()
        return {"count": count}

    def do_stop(self, command, _all):
        self.running.pop(command["name"]).shutdown()

    def _start(self, client, command):
        client.set_namesrv_addr(self.address)
        if "access_key" in command:
            client.set_session_credentials(command["access_key"], command["secret_key"], "")
        client.start()
        self.running[command["name"]] = client


def message_of(command, body):
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


def described(result):
    return {"status": f"SEND_{result.status.name}", "id": result.msg_id, "offset": result.offset}


def send_asynchronously(producer, message):
    done, outcome = threading.Event(), {}

    def succeed(result):
        outcome.update(described(result))
        done.set()

    def fail(error):
        outcome.update(error=str(error))
        done.set()

    producer.send_async(message, succeed, fail)
    if not done.wait(20):
        raise TimeoutError("no callback came")
    return outcome


def fails(message):
    """Messages whose body begins with "fail-N-" fail N times; those with "poison-" always."""
    body = message.body.decode()
    return body.startswith("poison-") or body.startswith("fail-") and message.reconsume_times < int(body.split("-")[1])


def show_got(name, message):
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


def main():
    driver = Driver(sys.argv[1])
    for line in sys.stdin:
        command = parse_qs(line.strip(), keep_blank_values=True)
        try:
            answer = driver.carry_out(command)
        except Exception as error:
            answer = {"error": repr(error)}
        show("done", number=command["number"][0], **answer)
    os._exit(0)


if __name__ == "__main__":
    main()
