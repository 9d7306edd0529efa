"""The consumption of messages by groups: pops, pulls, acknowledgements, and redelivery after a claim ended."""
