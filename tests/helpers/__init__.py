"""What tests share: small runs, oracles, drawn images, synthetic results. Nothing here is a test."""
