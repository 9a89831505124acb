"""Looking at data before anybody trains on them: ``survey("photos")``.

``looking`` reads everything once, also what training would refuse; ``surveyed`` is what it found, and ``findings`` says
what of it a person should see. ``verifying`` only asks whether every file is there and decodes.
"""

from tailcloud.data.inspection.survey import survey

__all__ = ["survey"]
