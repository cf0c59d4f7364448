"""Cycles of a systolic array in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from astra_sim import InputError
from astra_sim.shapes import Convolution, Gemm
from astra_sim_compute_systolic.array import Accesses, Dataflow, Folds, Mapping, SystolicArray
from hypothesis import given
from hypothesis import strategies as st

OS, WS, IS = Dataflow.OUTPUT_STATIONARY, Dataflow.WEIGHT_STATIONARY, Dataflow.INPUT_STATIONARY
sizes = st.integers(1, 300)
arrays = st.builds(SystolicArray, st.integers(1, 40), st.integers(1, 40), st.sampled_from(Dataflow))


def test_output_stationary_by_hand() -> None:
    # 5 x 3 outputs on 2 x 2 units: 3 by 2 fillings. In each, the first operands enter in cycle 0, the last of 4 reaches the farthest unit
    # 1 + 1 cycles later, in cycle 5; results move down one row each: 2 + 2 + 4 - 2 = 6 cycles.
    array = SystolicArray(2, 2, OS)
    assert array.mapping(5, 3, 4) == Mapping(rows=5, columns=3, time=4)
    assert array.folds(Mapping(5, 3, 4)) == Folds(3, 2)
    assert array.fold_cycles(4) == 6
    assert array.total_cycles(5, 3, 4) == 3 * 2 * 6 - 1
    assert array.mapping_efficiency(5, 3, 4) == 15 / 24
    assert array.sram_accesses(5, 3, 4) == Accesses(ifmap=5 * 4 * 2, filter=3 * 4 * 3, ofmap=5 * 3 + 6 * (2 + 2))


def test_weight_stationary_by_hand() -> None:
    # Weights of 4 inputs x 3 outputs stay: 2 by 2 fillings. Each takes 2 cycles to load, then 5 rows of inputs stream: 2 + 6 + 1 = 9.
    array = SystolicArray(2, 2, WS)
    assert array.mapping(5, 3, 4) == Mapping(rows=4, columns=3, time=5)
    assert array.fold_cycles(5) == 9
    assert array.total_cycles(5, 3, 4) == 2 * 2 * 9 - 1
    assert array.sram_accesses(5, 3, 4) == Accesses(ifmap=5 * 4 * 2, filter=4 * 3, ofmap=5 * 3 * 2)


def test_input_stationary_by_hand() -> None:
    # Inputs of 4 x 5 stay: 2 by 3 fillings; the 3 outputs stream.
    array = SystolicArray(2, 2, IS)
    assert array.mapping(5, 3, 4) == Mapping(rows=4, columns=5, time=3)
    assert array.fold_cycles(3) == 7
    assert array.total_cycles(5, 3, 4) == 2 * 3 * 7 - 1
    assert array.sram_accesses(5, 3, 4) == Accesses(ifmap=5 * 4, filter=4 * 3 * 3, ofmap=5 * 3 * 2)


@given(arrays, st.lists(st.tuples(sizes, sizes, sizes), min_size=1, max_size=5))
def test_many_products_at_once_take_what_each_takes(array: SystolicArray, products: list[tuple[int, int, int]]) -> None:
    m, n, k = np.array(products).T
    assert array.total_cycles(m, n, k).tolist() == [array.total_cycles(*product) for product in products]


@given(arrays, sizes, sizes, sizes)
def test_no_work_is_done_faster_than_all_units_could(array: SystolicArray, m: int, n: int, k: int) -> None:
    assert (array.total_cycles(m, n, k) + 1) * array.rows * array.columns >= m * n * k
    assert 0 < array.mapping_efficiency(m, n, k) <= 1


@given(arrays, sizes, sizes, sizes)
def test_larger_products_take_no_less_time(array: SystolicArray, m: int, n: int, k: int) -> None:
    cycles = array.total_cycles(m, n, k)
    assert array.total_cycles(m + 1, n, k) >= cycles
    assert array.total_cycles(m, n + 1, k) >= cycles
    assert array.total_cycles(m, n, k + 1) >= cycles


@given(arrays, sizes, sizes, sizes)
def test_input_stationary_is_weight_stationary_transposed(array: SystolicArray, m: int, n: int, k: int) -> None:
    weights, inputs = SystolicArray(array.rows, array.columns, WS), SystolicArray(array.rows, array.columns, IS)
    assert weights.total_cycles(m, n, k) == inputs.total_cycles(n, m, k)


def test_a_convolution_is_a_product_over_its_windows() -> None:
    convolution = Convolution(
        input_height=224, input_width=224, filter_height=11, filter_width=11, channels=3, filters=96, stride=4, batch=2
    )
    # (224 - 11) / 4 is 53.25: the 55th window reaches beyond the input.
    assert (convolution.output_height, convolution.output_width) == (55, 55)
    assert convolution.gemm == Gemm(m=2 * 55 * 55, n=96, k=11 * 11 * 3)
    assert convolution.input_elements == 2 * 224 * 224 * 3


def test_a_filter_larger_than_its_input_is_an_error() -> None:
    with pytest.raises(InputError, match="filter_width is 4; expected at most the input_width, which is 3"):
        Convolution(input_height=3, input_width=3, filter_height=3, filter_width=4, channels=1, filters=1)
