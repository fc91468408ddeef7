"""The kernels that test the PTX layer compile with both toolkits, and ptxas has nothing to remark."""

import pytest

from fa3_matrix import toolkits
from fa3_matrix.build import ptxas
from fa3_matrix.errors import ToolkitError

from . import ptx_fatbins

pytestmark = pytest.mark.toolkit


@pytest.mark.parametrize("part", ptx_fatbins.TARGETS)
@pytest.mark.parametrize("version", ptx_fatbins.TOOLKITS)
def test_compiles_without_a_remark(version: str, part: str) -> None:
    try:
        toolkit = toolkits.find(version)
    except ToolkitError as error:
        pytest.skip(str(error))
    ptx_fatbins.build(toolkit, part)
    log = ptx_fatbins.log(version, part).read_text(encoding="utf-8")
    assert "warning" not in log.lower()
    statistics = ptxas.parse(log)
    assert statistics.advisories == ()
    assert {kernel.target for kernel in statistics.kernels} == {
        f"sm_{target}" for target in ptx_fatbins.TARGETS[part]
    }
    spilling = [k.kernel for k in statistics.kernels if k.stack_bytes or k.spill_store_bytes]
    assert spilling == []
