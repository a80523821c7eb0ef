"""Makes the load: arrival times, request corpus, open and closed loops, one record a request.

A plan enters, records leave. Arrival times and corpora know neither gRPC nor Locust.
"""
