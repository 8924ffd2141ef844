"""Cost of randomizers: budgets and charges as integers.

Rules of the package:

- A budget is an integer number of nano-nats: 1 nat = 10^9. Pure epsilons add up, so composition is
  integer addition, also when tables are chosen adaptively.
- The charge of a likelihood ratio a/b is the least N with a <= e^(N/10^9) b. It is decided with
  integers that bound e^x from both sides, never by way of a float: a float rounded outward and then
  up costs 500,000,001 for epsilon = 0.5 and refuses every user whose budget is exactly 0.5.
- A budget given as text or number is rounded down, a charge is rounded up.
- The package imports the standard library, `askance_client.errors` and `askance_client.printable`,
  nothing else.
"""

from askance_client.accounting.charges import charge as charge
from askance_client.accounting.charges import ratio_within as ratio_within
from askance_client.accounting.exponential import exp_bounds as exp_bounds
from askance_client.accounting.nano_nats import LEAST_LOSS as LEAST_LOSS
from askance_client.accounting.nano_nats import MAX_NANO_NATS as MAX_NANO_NATS
from askance_client.accounting.nano_nats import NANO_NATS_PER_NAT as NANO_NATS_PER_NAT
from askance_client.accounting.nano_nats import check_nano_nats as check_nano_nats
from askance_client.accounting.nano_nats import format_nats as format_nats
from askance_client.accounting.nano_nats import parse_epsilon as parse_epsilon
from askance_client.accounting.nano_nats import parse_number as parse_number
