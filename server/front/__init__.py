"""Puts a server together and runs it: process, settings from outside, port, health, and the life of one call.

Settings, signals and request bytes enter; reply bytes, statuses and log lines leave.
"""
