"""The section `serving` of an experiment."""

from __future__ import annotations

from typing import Any

import attrs
from astra_sim import option
from astra_sim.shapes import ELEMENT_BYTES

from astra_sim_serving.arrivals import ARRIVALS, ArrivalStage
from astra_sim_serving.model_memory import Sharding
from astra_sim_serving.routers import ROUTERS

WEIGHT_TYPES = tuple(name for name, size in ELEMENT_BYTES.items() if size <= 2)


@attrs.frozen
class PoolOptions:
    """Instances that are alike."""

    role: str = option("both", choices=("both", "prefill", "decode"), help="work of its instances: prompts, answers, or both")
    model: str | None = option(None, help="model of its instances, one of serving.models; none: serving.model")
    instances: int = option(1, minimum=1, maximum=100_000, help="instances")
    tensor_parallel: int = option(1, minimum=1, help="NPUs of an instance, which share each product", unit="NPUs")
    pipeline_parallel: int = option(1, minimum=1, help="stages of an instance, which share the layers; each has a batch under way")
    data_parallel: int = option(1, minimum=1, help="ranks of an instance, each with requests of its own; they share the experts")
    expert_parallel: int = option(1, minimum=1, help="NPUs of a stage that share the experts; the others share each expert")
    exchange: str = option(
        "gather",
        choices=("gather", "all-to-all"),
        help="how tokens of ranks get to experts: all ranks gather all of them, or each token is sent to its experts",
    )
    device: str | None = option(None, help="device of its NPUs, for compute models that have this option; none: as compute.device")
    gpu_hour_usd: float | None = option(None, above=0, help="as serving.gpu_hour_usd, for this pool", unit="USD")
    npus: str | None = option(None, help="NPUs of its instances, such as 0-3,8-11; none: the first that no pool names")
    kv_blocks: int | None = option(None, minimum=1, help="blocks of keys and values of an instance; none: as serving.kv_blocks")
    max_sequences: int | None = option(None, minimum=1, help="as serving.max_sequences, for this pool")
    max_batched_tokens: int | None = option(None, minimum=1, help="as serving.max_batched_tokens, for this pool", unit="tokens")

    @property
    def sharding(self) -> Sharding:
        """The parallelism of an instance."""
        return Sharding(self.tensor_parallel, self.expert_parallel, self.data_parallel, self.pipeline_parallel)


@attrs.frozen
class PrefixGroups:
    """Prompts that begin alike: the requests are dealt to groups, of which each has a common beginning."""

    groups: int = option(minimum=1, help="groups")
    tokens: int = option(minimum=1, help="tokens that the prompts of a group have in common, in front of those of `input`", unit="tokens")


@attrs.frozen
class RequestOptions:
    """The arrivals of requests."""

    arrival: str = option("poisson", choices=ARRIVALS, help="when requests arrive")
    rate: float | None = option(None, above=0, help="requests a second; of a trace: its times are scaled to this mean rate", unit="1/s")
    cv: float | None = option(None, above=0, maximum=100, help="gamma: coefficient of variation of the gaps between arrivals")
    concurrency: int | None = option(None, minimum=1, help="closed: requests that are in the system; a new one comes when one ends")
    stages: tuple[ArrivalStage, ...] = option((), help="stages: rates, one after another")
    count: int | None = option(None, minimum=1, maximum=100_000_000, help="requests; none: 1000, or all of a trace or of the stages")
    input: Any = option(512, help="length of prompts in tokens: a number, or a table of a distribution")
    output: Any = option(128, help="length of answers in tokens: a number, or a table of a distribution")
    max_output: int | None = option(
        None,
        minimum=1,
        help="longest answer in tokens, for which some policies reserve memory; longer answers end there; none: each request's own length",
        unit="tokens",
    )
    trace: str | None = option(None, help="a file of requests, whose format is recognised by its content", path="path")
    run: str | None = option(None, help="of a trace with requests of several runs: this one")
    prefix: PrefixGroups | None = option(None, help="beginnings that prompts have in common")
    priorities: tuple[int, ...] = option((), help="priorities that requests have in turn; smaller ones go first")
    models: dict[str, Any] = option(
        factory=dict, help="requests for each of serving.models are in proportion to these numbers; none: the models that a trace names"
    )


@attrs.frozen
class RouterOptions:
    """Which instance takes a request."""

    policy: str | None = option(
        None, choices=ROUTERS, help="how the instance is chosen; none: round-robin, and least-waiting between ranks of data parallelism"
    )
    prefix_beta: float = option(0.5, minimum=0, help="prefix: weight of the load against the share of the prompt that is cached")
    queue_limit: int | None = option(None, minimum=0, help="requests that may wait in an instance; more are shed")


@attrs.frozen
class TransferOptions:
    """The transfer of keys and values from instances for prompts to those for answers."""

    mode: str = option("after", choices=("after", "layerwise"), help="after the prompt, or layer by layer beside it")
    latency_us: float = option(400.0, minimum=0, help="start of a transfer", unit="us")
    bandwidth_gb_per_s: float | None = option(
        None,
        above=0,
        help="bandwidth of an instance for prompts, whose transfers follow each other; none: messages on the network of the experiment",
        unit="10^9 bytes/s",
    )
    order: str | None = option(
        None,
        choices=("concurrent", "in-order"),
        help="transfers of an instance at once, which share links, or one after another; none: concurrent on a network where messages wait "
        "for each other, else in-order",
    )


@attrs.frozen
class AutoscaleOptions:
    """The number of running instances of each pool; `instances` of a pool are the most."""

    policy: str = option(
        "none",
        choices=("none", "queue", "kv", "rate", "ttft"),
        help="deciding quantity: requests that wait in an instance, share of its cache in use, requests a second for it, mean TTFT (ms)",
    )
    target: float = option(1.0, above=0, help="value of that which instances are to have, in the unit of the policy")
    minimum: int = option(1, minimum=1, help="instances of a pool at least, with which the run begins")
    period_s: float = option(30.0, above=0, help="time between decisions", unit="s")
    cold_start_s: float = option(180.0, minimum=0, help="time from the start of an instance until it takes requests", unit="s")
    down_after_s: float = option(300.0, minimum=0, help="fewer instances run when no decision in so long wanted more", unit="s")


@attrs.frozen
class SloOptions:
    """The latency targets of a request that counts for goodput."""

    ttft_ms: float | None = option(None, above=0, help="time to the first token at most", unit="ms")
    tpot_ms: float | None = option(None, above=0, help="time for each further token at most", unit="ms")
    e2e_ms: float | None = option(None, above=0, help="time to the last token at most", unit="ms")


@attrs.frozen
class SpeculationOptions:
    """Tokens that are drafted for requests whose answers are computed, and verified in one iteration."""

    tokens: int = option(minimum=1, maximum=64, help="tokens of a draft", unit="tokens")
    acceptance: float = option(minimum=0, maximum=1, help="chance that a token of a draft is accepted, if the one before it was")
    draft: str = option("ngram", help="source of drafts: ngram (no time on the device), mtp (a layer for each token), or a model by name")


@attrs.frozen
class LoraOptions:
    """LoRA adapters, which requests choose."""

    adapters: int = option(minimum=1, maximum=1_000_000, help="adapters that there are")
    rank: int = option(16, minimum=1, maximum=1024, help="rank of each")
    share: float = option(1.0, minimum=0, maximum=1, help="share of the requests that have an adapter")
    zipf: float = option(0.0, minimum=0, maximum=10, help="the n-th adapter is chosen in proportion to n^-zipf")
    max_loras: int | None = option(
        None, minimum=1, help="adapters of an iteration, for which an instance has memory; more wait; none: all that there are"
    )
    load_gb_per_s: float = option(25.0, above=0, help="bandwidth from the host to each NPU, of adapters that come", unit="10^9 bytes/s")

    @property
    def places(self) -> int:
        """Adapters for which an instance has memory."""
        return self.max_loras or self.adapters


@attrs.frozen
class TierOptions:
    """A memory behind the cache, which keeps blocks that the cache evicts."""

    capacity_gib: float = option(above=0, help="memory for each NPU of an instance", unit="GiB")
    read_gb_per_s: float = option(above=0, help="bandwidth to each NPU", unit="10^9 bytes/s")
    latency_us: float = option(10.0, minimum=0, help="start of a load", unit="us")
    shared: bool = option(False, help="all instances of a pool have one such memory, with the capacity of all")


@attrs.frozen
class ServedModel:
    """The model that is served, by name or by its dimensions."""

    name: str | None = option(None, help="a model by name, or the path of a config.json of Hugging Face or of its folder")
    dimensions: dict[str, Any] = option(factory=dict, help="dimensions of a model that has no name here")
    precision: str = option("bf16", choices=WEIGHT_TYPES, help="type of weights and of the inputs of products")
    expert_power: float | None = option(
        None,
        above=0,
        maximum=10,
        help="experts are chosen in proportion to numbers with density x^-power, as aiconfigurator measures (1.2), and the fullest rank "
        "decides; none: by chance, all alike",
    )
    kv: str | None = option(None, choices=WEIGHT_TYPES, help="type of keys and values; none: bf16")
    scaling: str | None = option(
        None,
        choices=("tensor", "token", "block"),
        help="scales of the inputs of fp8 products: tensor: known before; token: of each token, found with each product; block: of each "
        "128 elements; none: token with the engines vllm and sglang, else tensor",
    )


@attrs.frozen
class ServingOptions:
    """A server: its model, its instances and its requests."""

    engine: str = option("vllm", help="which rules plan iterations: vllm, or a policy by name")
    max_sequences: int = option(128, minimum=1, help="sequences of an iteration")
    max_batched_tokens: int = option(2048, minimum=1, help="tokens of an iteration", unit="tokens")
    max_prefill_tokens: int = option(0, minimum=0, help="tokens of one prompt in an iteration; 0: no limit", unit="tokens")
    max_model_tokens: int | None = option(None, minimum=2, help="tokens of prompt and answer at most; none: no limit", unit="tokens")
    block_tokens: int = option(16, minimum=1, help="tokens of a block of keys and values", unit="tokens")
    kv_blocks: int | None = option(None, minimum=1, help="blocks of an instance; none: as many as fit beside the weights")
    memory_utilization: float = option(0.9, above=0, maximum=1, help="share of the memory of an NPU that may be used")
    memory_gib: float | None = option(None, above=0, help="memory of an NPU; none: the compute model's", unit="GiB")
    memory_margin_gib: float = option(1.5, minimum=0, help="memory for contexts and graphs", unit="GiB")
    prefix_caching: bool = option(True, help="freed blocks keep their contents, which requests with the same beginning use")
    tier: tuple[TierOptions, ...] = option((), help="memories behind the cache, the nearest first; evicted blocks are kept there")
    priorities: bool = option(False, help="smaller priorities go first, and the largest is preempted first; false: by arrival")
    graph_tokens: int | None = option(
        None,
        minimum=0,
        help="ranks of data parallelism fill batches up to this size to that of the largest; none: 2 * max_sequences, at most 512",
        unit="tokens",
    )
    speculative: SpeculationOptions | None = option(None, help="speculative decoding; none: one token an iteration")
    lora: LoraOptions | None = option(None, help="adapters; none: requests ask for the model itself")
    all_reduce: str | None = option(
        None,
        choices=("direct", "network"),
        help="all-reduces of tensor parallelism in a node: direct: NPUs read each other's memory up to 8 MiB, as the compute model knows; "
        "none: direct if it knows and the times of the network were measured (model=nccl)",
    )
    collectives: str = option(
        "alone",
        choices=("alone", "shared"),
        help="exchanges with experts and all-reduces that leave a node: alone: as if nothing else were on the network; shared: with those "
        "of other instances and transfers of keys and values on the same links, each message simulated",
    )
    async_scheduling: bool = option(True, help="the host plans the next iteration while the device works")
    jumps: bool = option(True, help="iterations whose plan does not change are simulated as one event")
    gpu_hour_usd: float | None = option(None, above=0, help="price of an NPU for an hour; none: costs are not known", unit="USD")
    seed: int = option(1, minimum=0, help="seed of all random numbers")
    warmup_s: float = option(0.0, minimum=0, help="the steady window begins so long after the first arrival", unit="s")
    model: ServedModel | None = option(None, help="the model; none: those of serving.models")
    models: dict[str, Any] = option(factory=dict, help="models by name, each with the options of serving.model, for pools that name them")
    pool: tuple[PoolOptions, ...] = option((PoolOptions(),), help="instances")
    requests: RequestOptions = option(RequestOptions(rate=1.0), help="arrivals of requests")
    router: RouterOptions = option(RouterOptions(), help="which instance takes a request")
    transfer: TransferOptions = option(TransferOptions(), help="how keys and values get from prefill to decode instances")
    autoscale: AutoscaleOptions = option(AutoscaleOptions(), help="how many of the instances run")
    slo: SloOptions = option(SloOptions(), help="limits that requests are to meet")


@attrs.frozen
class ServingCompute:
    """The options of the section `compute` for serving, besides the compute model's."""

    tables: str | None = option(None, help="a file of measured kernels, which take precedence if they cover a shape", path="path")
    run: str | None = option(None, help="the run of that file whose tables are used")
    skew: float = option(0.055, minimum=0, maximum=1, help="share of the time between longest and mean context that a batch takes longer")
    host_us: float = option(0.0, minimum=0, help="time of the host for an iteration", unit="us")
    host_us_per_sequence: float = option(0.0, minimum=0, help="and for each sequence that gets a token", unit="us")
    front_end_ms: float = option(0.0, minimum=0, help="time between the arrival of a request and its place in a queue", unit="ms")
