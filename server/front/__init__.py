"""Assembles and runs the server: process, configuration, gRPC port, health, and the life of each call.

Settings, signals and request bytes enter; reply bytes, statuses and log lines leave.
"""
