"""Questions between the processes of proxies: about clients by way of a broker, about themselves within one server.

`values.py` has the plain values, `forms.py` their bytes, `asking.py` asks all others.
"""
