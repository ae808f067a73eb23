#pragma once

/// Everything in Manta that needs no further library. See README.md for a first program.

#include "manta/base/error.h"
#include "manta/base/log.h"
#include "manta/core/actor.h"
#include "manta/core/detached.h"
#include "manta/core/init.h"
#include "manta/core/object_ref.h"
#include "manta/core/remote.h"
#include "manta/core/resources.h"
#include "manta/data/dataset.h"
#include "manta/data/shard.h"
#include "manta/data/sources.h"
#include "manta/preprocess/chain.h"
#include "manta/preprocess/fold_batches.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/preprocess/scalers.h"
#include "manta/train/callback.h"
#include "manta/train/session.h"
#include "manta/train/trainer.h"
