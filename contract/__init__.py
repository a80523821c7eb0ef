"""What a bundle must be: one statement that export writes by, `regard verify` checks and the server opens by.

A directory enters, a checked and frozen `LoadedBundle` or a `BundleError` leaves. No session is opened here.
"""
