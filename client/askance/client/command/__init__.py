"""The device's commands, for the owner of a device; the edge-only install has no others.

Plain text or one JSON object, by the standard library alone. `python -m askance.client` runs them
alone; `askance device` is the same from the whole distribution. What a command needs is imported
when it runs, so that `--help` is quick.

`device` has the arguments; `making`, `running` and `telling` what the commands do; `home` a
device's folder, `configuration` and `template` its `device.toml`, `people` whom it stands for,
`journal` what it says of itself while it runs.
"""
