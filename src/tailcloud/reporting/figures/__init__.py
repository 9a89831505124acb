"""The figures of a report, as SVG."""
