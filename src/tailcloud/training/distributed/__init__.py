"""One run on several processes (ranks): ``world`` connects them, ``sync_batch_norm`` is batch norm over all of them."""
