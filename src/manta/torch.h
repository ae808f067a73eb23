#pragma once

/// Training with PyTorch. Needs the target manta::torch. Brings tensors, torch::nn and
/// torch::optim; programs that use more of libtorch (torch::jit, torch::data, ...) include
/// <torch/torch.h>.
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "manta/torch/autocast.h"
#include "manta/torch/data_loader.h"
#include "manta/torch/grad_scaler.h"
#include "manta/torch/lr_schedule.h"
#include "manta/torch/prepare_model.h"
#include "manta/torch/reduce_on_plateau.h"
#include "manta/torch/seed_and_device.h"
#include "manta/torch/state_dict.h"
#include "manta/torch/sync_batch_norm.h"
#include "manta/torch/tensor_bytes.h"
#include "manta/torch/to_torch.h"
#include "manta/torch/torch_batches.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_predictor.h"
#include "manta/torch/torch_profiler.h"
#include "manta/torch/torch_trainer.h"
