#pragma once

// The umbrella for users. The library itself includes what it uses.

#include "argosy/comm/call_timeout.h"
#include "argosy/comm/coalesce.h"
#include "argosy/comm/flight/flight_record.h"
#include "argosy/comm/functional.h"
#include "argosy/comm/gloo_env.h"
#include "argosy/comm/group.h"
#include "argosy/comm/objects.h"
#include "argosy/comm/ops.h"
#include "argosy/comm/stream.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/parallel/data/data_parallel.h"
#include "argosy/store/open.h"
#include "argosy/world/init.h"
#include "argosy/world/record.h"
#include "argosy/world/spawn.h"
#include "argosy/world/world.h"
