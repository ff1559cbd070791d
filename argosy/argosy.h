#pragma once

// What most programs need: ranks that meet, collectives, data, the ways to
// train, checkpoints, and what to watch. The rest is included by name, as
// "argosy/pipeline/pipeline_parallel.h". The library never includes this.

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/model_file.h"
#include "argosy/comm/functional.h"
#include "argosy/comm/objects.h"
#include "argosy/comm/operation/label.h"
#include "argosy/comm/ops.h"
#include "argosy/comm/spawn_results.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/data/collate.h"
#include "argosy/data/corpora.h"
#include "argosy/data/loader.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/fleet/fleet.h"
#include "argosy/mesh/process_mesh.h"
#include "argosy/observe/group_meter.h"
#include "argosy/observe/session.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/sgd.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/world/init.h"
#include "argosy/world/record.h"
#include "argosy/world/spawn.h"
#include "argosy/world/world.h"
