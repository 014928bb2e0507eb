//! The names that a pickle may contain.

/// The names that a checkpoint may contain, by module. They label nodes of the tree; none is imported.
const NAMES: &[(&str, &[&str])] = &[
    ("collections", &["OrderedDict"]),
    ("torch._utils", &["_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter"]),
    (
        "torch",
        &[
            "FloatStorage",
            "HalfStorage",
            "BFloat16Storage",
            "DoubleStorage",
            "LongStorage",
            "IntStorage",
            "ShortStorage",
            "CharStorage",
            "ByteStorage",
            "BoolStorage",
            "Size",
            "device",
            "float32",
            "float16",
            "bfloat16",
            "float64",
            "int64",
            "int32",
            "int16",
            "int8",
            "uint8",
            "bool",
        ],
    ),
    // Arrays of numpy, also under the names of version 2. Text that encodes bytes comes from protocol 2.
    ("numpy", &["dtype", "ndarray"]),
    ("numpy.core.multiarray", &["_reconstruct", "scalar"]),
    ("numpy._core.multiarray", &["_reconstruct", "scalar"]),
    ("numpy.core.numeric", &["_frombuffer"]),
    ("numpy._core.numeric", &["_frombuffer"]),
    ("_codecs", &["encode"]),
    ("__builtin__", &["bytes", "set"]),
    ("builtins", &["bytes", "set"]),
    // Whole modules of overcomplete, as `torch.save(sae)` writes them. A function or class of the user is refused.
    ("overcomplete.sae.archetypal_dictionary", &["RelaxedArchetypalDictionary"]),
    ("overcomplete.sae.batchtopk_sae", &["BatchTopKSAE"]),
    ("overcomplete.sae.dictionary", &["DictionaryLayer", "normalize_l2"]),
    ("overcomplete.sae.jump_sae", &["JumpSAE"]),
    ("overcomplete.sae.kernels", &["silverman_kernel"]),
    ("overcomplete.sae.modules", &["IdentityEncoder", "MLPEncoder"]),
    ("overcomplete.sae.mp_sae", &["MpSAE"]),
    ("overcomplete.sae.rasae", &["RAJumpSAE", "RATopKSAE"]),
    ("overcomplete.sae.topk_sae", &["TopKSAE"]),
    ("torch.nn.modules.activation", &["ReLU"]),
    ("torch.nn.modules.batchnorm", &["BatchNorm1d"]),
    ("torch.nn.modules.container", &["ModuleList", "Sequential"]),
    ("torch.nn.modules.linear", &["Identity", "Linear"]),
    ("torch.nn.modules.normalization", &["LayerNorm"]),
    ("torch.nn.parallel.data_parallel", &["DataParallel"]),
];

/// The permitted name, if it is on the list.
pub(super) fn permitted(module: &str, name: &str) -> Option<&'static str> {
    let (_, names) = NAMES.iter().find(|(known, _)| *known == module)?;
    names.iter().find(|known| **known == name).copied()
}
