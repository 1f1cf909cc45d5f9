"""Ask before something is destroyed, where nobody can answer."""

from assay.cli.confirming import confirm
from assay.cli.output import prepare_streams
from domain.errors import UsageError

prepare_streams()
try:
    confirm("All goes.", yes=False)
except UsageError as error:
    print(error.field, error.remedy, error.exit_code)
