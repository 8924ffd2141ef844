"""Algorithms of the trusted curator, a party that holds all records and releases answers privately.

Rules of the package:

- The curator holds the data: the guarantee is about what is *released*, towards every party except
  the curator. Two data sets are neighbours when they have the same number of records and differ
  in one of them (replace-one); n is public.
- Randomness is passed in (`sampling.Words`) and integers decide; where a mechanism is continuous by
  nature its docstring says what is not safe against floats.
- Every input is checked, and every budget parsed, before anything is drawn: a call that raises has
  released nothing.
- Errors (that there is one, and the row that it names) and durations depend on the data and are
  private to the curator. A caller that shows either to other parties clips instead of refusing,
  and waits a fixed time.
- What the papers print and is not private, or not true, is in `askance_papers.reproduce` and
  not here.
"""
