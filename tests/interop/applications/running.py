"""The programs of this folder as running processes."""

from collections import Counter
from pathlib import Path

from tests.interop.processes import Processes
from tests.interop.programs import Programs
from tests.interop.remoting.running import JAVA_OPTIONS, Event, Remoting

HERE = Path(__file__).parent
MAIN = {name: f"applications.{name.title()}Program" for name in ("spring", "stream", "camel")}


class Application(Processes[Event]):
    """A program that sends what it sends, and prints what comes to each of its listeners."""

    def __init__(self, name: str, remoting: Remoting, home: Path, *arguments: str, client: Path | None = None) -> None:
        """`client` is a folder with libraries that come before those of the framework."""
        folder = Programs(f"application-{name}", HERE / "shared", HERE / name).build("java")
        classes = [f"{folder}/target/classes", *([f"{client}/*"] if client else []), f"{folder}/target/lib/*"]
        java = ["java", *JAVA_OPTIONS, f"-Duser.home={home}", "-cp", ":".join(classes), MAIN[name]]
        super().__init__([[*java, remoting.stack.addresses["remoting"], *arguments]], home, Event.parse)

    def of(self, event: str) -> list[Event]:
        """The events of that kind, in order."""
        return [each for each in self.events if each["event"] == event]

    def got(self, listener: str) -> list[Event]:
        """What a listener got, in order."""
        return [event for event in self.of("got") if event["listener"] == listener]

    def bodies(self, listener: str) -> Counter[str]:
        """How often a listener got each body."""
        return Counter(event.body for event in self.got(listener))

    async def until_sent(self) -> None:
        """Wait until the program has sent all that it sends."""
        await self.until(lambda _: bool(self.of("sent")), "all is sent")
        assert not self.of("failed"), self.report()

    async def until_got(self, listener: str, count: int) -> list[Event]:
        """Wait until a listener has got so many messages, and return them."""
        await self.until(lambda _: len(self.got(listener)) >= count, f"{count} messages for {listener}")
        return self.got(listener)


async def create_topics(remoting: Remoting, *topics: str) -> None:
    """Create topics: a listener that starts on a missing one looks for it every half a minute only."""
    for topic in topics:
        await remoting.create_topic(topic)
