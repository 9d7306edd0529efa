"""The operations of clients and operators, independent of the protocol.

An operation gets plain values and the `Call`, asks for rights and quotas, checks the values, calls the MessageService
or the catalog, and returns plain values; it raises MessagingError with an `ErrorCode`. Fronts turn requests into these
values and the results into answers.
"""
