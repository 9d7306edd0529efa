"""The operations of operators: the calls of the admin services, in plain values.

An operation asks for the rights first (`AccessControl.require_all`; if it changes something `require_change`, which has
the audit log say so), then checks. Settings that a front reads from a request are given as a function, which is called
after that: a user without the right is refused for that before any other error, and the audit log has the refusal.

Answers are cut to what the caller may see: lists of topics and groups before they are divided into pages, all others
afterwards.
"""
