#pragma once

/// Training with PyTorch. Needs the target manta::torch.
#include "manta/torch/prepare_model.h"
#include "manta/torch/torch_batches.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_predictor.h"
#include "manta/torch/torch_trainer.h"
