"""All runs that can be repeated, by name.

A name enters, a frozen configuration leaves. It does not know how a run is carried out.
"""
