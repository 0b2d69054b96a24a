"""Where a text may be cut, decided for each tokenizer from its own ``tokenizer.json`` (DESIGN sections 3 and 4).

Read in this order: :mod:`.positions` (all that can be the case at a place of a text), :mod:`.pairs` (two texts side
by side), :mod:`.relation` (which neighbours restart and close) and :mod:`.witness` (why the others do not);
:mod:`.barriers` (models without pre-tokenizer), :mod:`.normalizers` and :mod:`.literals` (the other steps of the
pipeline); :mod:`.derive` (the certificate), :mod:`.cuts` (finding cuts in a text), :mod:`.stream` (a text that
arrives in chunks).
"""
