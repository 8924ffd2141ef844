"""The verifier as a program: JSON lines in, JSON lines out.

python -m tests.conformance.verifier
"""

from __future__ import annotations

import json
import sys

from tests.conformance.verifier.kinds import answer

for line in sys.stdin:
    asked = json.loads(line)
    print(
        json.dumps({"id": asked["id"], "answer": answer(asked["kind"], asked["input"])}), flush=True
    )
