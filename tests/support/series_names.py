"""The names that the series of an instrument have in Prometheus."""

from ternmq_runtime.observability.instruments import Instrument, InstrumentKind

_UNITS = {"s": "_seconds", "By": "_bytes"}


def series_names(instrument: Instrument) -> frozenset[str]:
    name = instrument.name.replace(".", "_") + _UNITS.get(instrument.unit, "")
    if instrument.kind is InstrumentKind.COUNTER:
        return frozenset({name + "_total"})
    if instrument.kind is InstrumentKind.DURATION:
        return frozenset({name + "_bucket", name + "_sum", name + "_count"})
    return frozenset({name})
