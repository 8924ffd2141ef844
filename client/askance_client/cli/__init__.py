"""The device's commands, for the owner of a device.

Plain text or one JSON object, by the standard library alone. `python -m askance_client` runs them
alone; `askance device` is the same. What a command needs is imported
when it runs, so that `--help` is quick.

`device` has the arguments; `making`, `running` and `report` what the commands do; `home` a
device's folder, `configuration` and `template` its `device.toml`, `members` the users of a
gateway, `event_log` the events that are logged while it runs, `wording` questions in plain words.
"""
