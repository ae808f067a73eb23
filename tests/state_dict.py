"""The other end of a state_dict, with Python's own torch and safetensors, for tests.

Usage: state_dict.py <folder of the torch package> write <folder>
                                                   read <file>
                                                   safetensors <file>
`write` saves files of several kinds to the folder. `read` loads a file with weights_only=True, `safetensors` with the
package of that name; both print one JSON object: of each tensor its type, shape and values, and the names of the others
that share its memory.
"""

import json
import os
import sys


def describe(tensors):
    import torch
    said = {}
    for name, tensor in tensors.items():
        values = tensor.to(torch.complex128) if tensor.is_complex() else tensor.to(torch.float64)
        flat = torch.view_as_real(values).flatten() if tensor.is_complex() else values.flatten()
        shared = [other for other, its in tensors.items()
                  if other != name and tensor.numel() > 0 and its.data_ptr() == tensor.data_ptr()]
        said[name] = {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "values": flat.tolist(),
                      "shares_with": shared}
    print(json.dumps(said))


def write(folder):
    import torch
    save = lambda value, name, **options: torch.save(value, os.path.join(folder, name), **options)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    save(model.state_dict(), "model.pt")
    save(model.state_dict(), "protocol4.pt", pickle_protocol=4)
    # As an optimizer's state_dict; torch.optim itself needs packages that are not in the venv.
    optimizer = {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(4, 3)}},
                 "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "amsgrad": False, "params": [0, 1]}]}
    save({"model": model.state_dict(), "optimizer": optimizer, "epoch": 3, "loss": 0.5, "names": ["a", "b"]},
         "checkpoint.pt")
    kinds = {}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
                  torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.float8_e5m2,
                  torch.float8_e4m3fn, torch.uint16, torch.uint32, torch.uint64):
        kinds[str(dtype)[6:]] = torch.tensor([0, 1, 2, 3]).to(dtype)
    save(kinds, "types.pt")
    base = torch.arange(12, dtype=torch.float32)
    save({"base": base, "transposed": base.view(3, 4).t(), "part": base[4:8], "every_other": base[::2],
          "empty": torch.empty(0, 5), "number": torch.tensor(7.0),
          "parameter": torch.nn.Parameter(torch.ones(2))}, "views.pt")
    save(model, "whole_model.pt")
    save({"weight": torch.eye(2).to_sparse()}, "sparse.pt")
    save({"weight": torch.ones(2, dtype=torch.complex64).conj()}, "conjugated.pt")
    save([torch.ones(2)], "list.pt")


def main(torch_folder, command, path):
    sys.path.insert(0, torch_folder)
    if command == "write":
        write(path)
    elif command == "read":
        import torch
        describe(torch.load(path, weights_only=True))
    else:
        from safetensors.torch import load_file
        describe(load_file(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
