"""One module a command of `regard`.

Arguments enter, an exit status leaves; the logic belongs to the other folders.
"""
