"""A server whose console is tested: what a test prepares there and reads from it, beside the pages, by plain calls."""

import http.client
import json
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.support.json_api import PREFIX, basic

Json = Any
HELD = timedelta(seconds=30)
ROOT, SECRET = "root", "a-secret-of-a-test"


@dataclass(frozen=True)
class Site:
    """`user` and `secret` are those of all calls that name no others."""

    grpc: str
    http: str
    user: str = ""
    secret: str = ""

    def ask(
        self, method: str, path: str, body: Json = None, *, user: str = "", secret: str = SECRET, status: int = 0
    ) -> Json:
        """The JSON API's answer; its status has to be `status`, or 2xx without that."""
        found, said = self.request(method, path, body, user=user, secret=secret)
        assert found == status if status else found < 300, (found, said)
        return json.loads(said) if said else None

    def request(
        self, method: str, path: str, body: Json = None, *, user: str = "", secret: str = SECRET
    ) -> tuple[int, bytes]:
        """Status and body of what the JSON API answers."""
        headers = {} if body is None else {"content-type": "application/json"}
        if user or self.user:
            headers |= basic(user, secret) if user else basic(self.user, self.secret)
        with closing(http.client.HTTPConnection(self.http, timeout=20)) as connection:
            connection.request(method, PREFIX + path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()

    # --- topics and groups

    def create_topic(self, name: str, **settings: Json) -> None:
        """One of one queue, unless `settings` say otherwise."""
        self.ask("POST", "/topics", {"name": name, "queues": 1, **settings})

    def create_group(self, name: str, **settings: Json) -> None:
        self.ask("POST", "/groups", {"name": name, **settings})

    def count_messages(self, topic: str) -> int:
        described = self.ask("GET", f"/topics/{quote(topic, safe='')}")
        return sum(queue["max_offset"] - queue["min_offset"] for queue in described["queues"])

    def list_transactions(self, topic: str) -> list[Json]:
        return list(self.ask("GET", f"/transactions?topic={topic}")["transactions"])

    # --- users

    def create_user(self, name: str, *policies: tuple[str, str]) -> None:
        """A user with SECRET; of each policy the resource and what it allows."""
        self.ask("POST", "/users", {"name": name, "secret": SECRET})
        for resource, actions in policies:
            self.put_policy(name, resource, actions)

    def put_policy(self, name: str, resource: str, actions: str) -> None:
        self.ask("PUT", f"/users/{name}/policies", {"resource": resource, "actions": actions})

    def get_user(self, name: str) -> Json:
        return self.ask("GET", f"/users/{name}")["user"]

    def accepts_secret(self, name: str, secret: str) -> bool:
        """Whether that is a secret of the user's; what he may do is another thing."""
        return self.request("GET", f"/users/{name}", user=name, secret=secret)[0] != 401

    # --- messages

    def send(self, topic: str, *bodies: bytes, **fields: Json) -> list[str]:
        """The ids of the messages."""
        with Producer(self.grpc, topics=[topic]) as producer:
            return [producer.send(Message(topic, body, **fields)).message_id for body in bodies]

    def begin_transaction(self, topic: str) -> None:
        """Send a half message, `paid`, and leave it open."""
        with Producer(self.grpc, topics=[topic]) as producer:
            producer.begin_transaction().send(Message(topic, b"paid"))

    def receive(self, group: str, topic: str, count: int) -> list[bytes]:
        """The bodies of so many messages, sorted; they are acknowledged."""
        found: list[bytes] = []
        with SimpleConsumer(self.grpc, group, {topic: "*"}) as consumer:
            while len(found) < count:
                taken = consumer.receive(16, HELD)
                found += [each.body for each in taken]
                consumer.ack(taken)
        return sorted(found)

    def create_letters(self, name: str, *bodies: bytes, **fields: Json) -> None:
        """A topic and a group of that name; the group gives up each message, of key k0, k1 ..., at once."""
        self.create_topic(name)
        self.create_group(name, max_attempts=1, consume_from="earliest")
        with Producer(self.grpc, topics=[name]) as producer:
            for number, body in enumerate(bodies):
                settings: dict[str, Json] = {"keys": [f"k{number}"]} | fields
                producer.send(Message(name, body, **settings))
        left = len(bodies)
        with SimpleConsumer(self.grpc, name, {name: "*"}) as consumer:
            while left:
                for each in consumer.receive(16, HELD):
                    each.nack()
                    left -= 1


def audit_line(**fields: object) -> str:
    """Return a line of an audit log: a super user deleted a topic, unless `fields` say otherwise."""
    usual = {
        "time": "2026-01-02T03:04:05.678Z",
        "user": "u",
        "source": "10.0.0.7:1",
        "client": "c",
        "call": "DeleteTopic",
        "resource": "Topic:t",
        "allowed": True,
        "why": "a super user",
    }
    return json.dumps(usual | fields)
