"""Keys of a `config.json` that change no figure here: those of configuration classes of transformers 4.57, and of models' own files."""

_OF_EVERY_MODEL = """
    add_cross_attention architectures attn_implementation auto_map bos_token_id chunk_size_feed_forward
    cross_attention_hidden_size decoder_start_token_id dtype eos_token_id finetuning_task gradient_checkpointing id2label
    is_decoder is_encoder_decoder label2id model_type name_or_path num_labels output_attentions output_hidden_states
    pad_token_id prefix problem_type pruned_heads quantization_config return_dict sep_token_id task_specific_params
    tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_class torch_dtype torchscript transformers_version
    use_bfloat16 use_cache
"""
_OF_GENERATION = """
    bad_words_ids begin_suppress_tokens cache_implementation diversity_penalty do_sample early_stopping
    encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty
    max_length min_length no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_scores
    remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens temperature top_k top_p typical_p
"""
_OF_INITIALISATION_AND_LOSS = """
    aux_loss_alpha initializer_range output_router_logits pretraining_tp router_aux_loss_coef router_jitter_noise seq_aux
    summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
"""
_OF_SMALL_OPERATIONS = """
    activation_function attention_dropout attention_probs_dropout_prob attn_logit_softcapping attn_pdrop attn_scale
    attn_temperature_tuning classifier_dropout embd_pdrop ep_size final_logit_softcapping floor_scale hidden_act
    hidden_activation hidden_dropout hidden_dropout_prob layer_norm_eps layer_norm_epsilon n_ctx n_group norm_eps
    norm_topk_prob query_pre_attn_scalar reorder_and_upcast_attn resid_pdrop rms_norm_eps routed_scaling_factor
    scale_attn_by_inverse_layer_idx scale_attn_weights scoring_func swiglu_limit topk_group topk_method
    use_parallel_residual
"""
_OF_POSITIONS = """
    initial_context_length no_rope_layer_interval no_rope_layers original_max_position_embeddings partial_rotary_factor
    rope_interleave rope_local_base_freq rope_parameters rope_scaling rope_theta rotary_emb_base rotary_pct
"""
_OF_WINDOWS = """
    attention_chunk_size layer_types max_window_layers sliding_window sliding_window_pattern sliding_window_size
    use_bidirectional_attention use_sliding_window
"""
_THAT_SOME_MODELS_IGNORE = """
    attention_bias experts_per_token for_llm_compressor head_dim mlp_bias moe_layers num_key_value_heads qk_head_dim
"""

WITHOUT_EFFECT = frozenset(
    (
        f"{_OF_EVERY_MODEL} {_OF_GENERATION} {_OF_INITIALISATION_AND_LOSS} {_OF_SMALL_OPERATIONS} {_OF_POSITIONS} {_OF_WINDOWS}"
        f" {_THAT_SOME_MODELS_IGNORE}"
    ).split()
)
"""Names that need no warning if nothing reads them; nor do those that begin with an underscore."""

OF_ROTARY_SCALING = frozenset(
    "attention_factor beta_fast beta_slow factor full_attention high_freq_factor long_factor low_freq_factor mscale mscale_all_dim"
    " original_max_position_embeddings partial_rotary_factor rope_theta rope_type short_factor sliding_attention truncate type".split()
)
"""Keys of `rope_scaling` and `rope_parameters`."""
