"""What the processes of proxies tell each other: about their clients by way of a broker, about themselves those of one
server alone.

`values.py` has the plain values, `forms.py` their bytes, `asking.py` asks all others.
"""
