#include "argosy/fleet/fleet.h"

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/fleet/pipeline_model.h"
#include "argosy/fleet/ps_job.h"
#include "argosy/fleet/ps_model.h"
#include "argosy/fleet/registry.h"
#include "argosy/fleet/strategy_check.h"
#include "argosy/pipeline/pipeline_layer.h"
#include "argosy/world/world.h"

namespace argosy::fleet {

namespace {

// Attached to a world.
struct Current {
  std::shared_ptr<Fleet> fleet;
};

// Attached to the world, not global: thread ranks of one process have a fleet
// each.
Current& current_of(World& world) {
  return *world.attached<Current>([] { return std::make_shared<Current>(); });
}

// Describes the first setting whose values differ.
std::optional<std::string> difference(
    const DistributedStrategy& a, const DistributedStrategy& b) {
  const auto ours = a.settings();
  const auto theirs = b.settings();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i]->value() != theirs[i]->value()) {
      return str_format(
          "{} is {} and {}",
          ours[i]->path(),
          json_text(ours[i]->value()),
          json_text(theirs[i]->value()));
    }
  }
  return std::nullopt;
}

// Workers with different strategies would issue different collectives and hang.
void check_same(const DistributedStrategy& strategy, const UtilBase& util) {
  const auto all = util.all_gather(strategy.to_json());
  const auto first = DistributedStrategy::from_json(all.front());
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto found =
        difference(first, DistributedStrategy::from_json(all[i]));
    ARGOSY_CHECK(
        !found,
        "[fleet.init] workers 0 and {} have different strategies: {}",
        i,
        *found);
  }
}

void check_agrees(const JobRole& role, const World& world) {
  const int expected = role.is_server() ? role.server_num() : role.worker_num();
  ARGOSY_CHECK(
      role.info().rank_by_arrival || role.role() == Role::Scheduler ||
          (role.role_id() == world.rank() && expected == world.size()),
      "[fleet.init] {} {} of {} by the role maker, but rank {} of {} of "
      "the world",
      to_string(role.role()),
      role.role_id(),
      expected,
      world.rank(),
      world.size());
}

std::shared_ptr<World> join_world(
    const JobRole& role, const InitOptions& options) {
  if (auto world = current_world()) {
    return world;
  }
  ARGOSY_CHECK(
      role.worker_num() == 1 || !role.info().store_url.empty() ||
          role.info().address_exchange != AddressExchange::None,
      "[fleet.init] {} workers without worker_endpoints, expected an address "
      "for the rendezvous",
      role.worker_num());
  return argosy::init(role.info(), options);
}

void warn_of_idle_settings(const DistributedStrategy& strategy) {
  const auto idle = settings_of_switches_that_are_off(strategy);
  if (!idle.empty()) {
    log::warn(
        "[fleet.init] {}{} without effect: the switch is off",
        strategy.source().empty() ? "" : strategy.source() + ": ",
        join(idle, ", "));
  }
}

std::shared_ptr<Fleet> start(
    World& world, const JobRole& role, const DistributedStrategy& strategy) {
  check_agrees(role, world);
  auto fleet = std::make_shared<Fleet>(role, strategy);
  // Before the fleet and its mesh become current: a failed init() must leave
  // none behind.
  check_same(strategy, fleet->util());
  set_current_hybrid_mesh(fleet->axes().hybrid);
  current_of(world).fleet = fleet;
  if (world.rank() == 0) {
    warn_of_idle_settings(strategy);
  }
  return fleet;
}

bool has_servers(const JobRole& role) {
  return role.server_num() > 0 &&
      (role.is_worker() || role.is_server() || role.role() == Role::Scheduler);
}

std::shared_ptr<Fleet> start_with_servers(
    const JobRole& role,
    const DistributedStrategy& strategy,
    const InitOptions& options) {
  ARGOSY_CHECK(
      !role.is_collective(),
      "[fleet.init] is_collective, but the job has {} servers",
      role.server_num());
  check_strategy(strategy);
  const JoinedPsJob joined = join_ps_job(role, options);
  return start(*joined.world, joined.role, strategy);
}

void check_collective(
    const JobRole& role, const DistributedStrategy& strategy) {
  ARGOSY_CHECK(
      !role.is_collective() || !strategy.a_sync,
      "[fleet.init] a_sync in a collective job, which has no servers: leave it "
      "out, or init(false)");
  ARGOSY_CHECK(
      role.is_worker() && role.server_num() == 0,
      "[fleet.init] {} {} of a job with {} servers, expected a worker of a "
      "collective job",
      to_string(role.role()),
      role.role_id(),
      role.server_num());
}

} // namespace

Fleet::Fleet(JobRole role, const DistributedStrategy& strategy)
    : role_(std::move(role)),
      strategy_(strategy),
      axes_(strategy_),
      // The collectives of a server are among servers.
      util_(
          role_.role_id(),
          role_.is_server() ? role_.server_num() : role_.worker_num(),
          axes_.world),
      registry_(std::make_shared<Registry>()) {
  check_strategy(strategy_);
  autocast_lists(strategy_); // refuses names of ops that do not exist
}

void Fleet::check_has_no_stages() const {
  ARGOSY_CHECK(
      strategy_.hybrid_configs.pp_degree == 1,
      "[fleet.distributed_model] a whole model for a pipeline of {} stages "
      "(hybrid_configs.pp_degree), expected a PipelineLayer or a "
      "pipeline::CutStage",
      strategy_.hybrid_configs.pp_degree.get());
}

ModelSetup Fleet::prepare(torch::nn::Module& module) {
  const auto served = serve_model(module, strategy_); // before it has memory
  ModelSetup setup = prepare_model(module, strategy_, axes_, registry_);
  setup.served = served;
  if (served && served->placement().workers.empty()) {
    // Workers share nothing but what servers hold, and may not meet.
    setup.options.group =
        shared_group(current_world(), {current_world()->rank()});
  }
  setup.recomputed = recomputed_of(module, strategy_);
  return setup;
}

PipelineModel Fleet::distributed_model(const pipeline::PipelineLayer& layers) {
  return distributed_model(layers.ptr(), layers->options().loss_fns);
}

PipelineModel Fleet::distributed_model(
    const std::shared_ptr<pipeline::StageModel>& stage,
    std::vector<pipeline::LossFn> loss_fns) {
  return PipelineModel(
      stage,
      std::move(loss_fns),
      strategy_,
      prepare_model(stage->module(), strategy_, axes_, registry_));
}

void Fleet::replace_strategy(const DistributedStrategy& strategy) {
  const auto found = difference(strategy_, strategy);
  if (!found) {
    return;
  }
  ARGOSY_CHECK(
      // A model that exists was prepared with the axes of the old strategy.
      !registry_->has_models(),
      "[fleet.distributed_optimizer] the strategy differs from the model's: "
      "{}. Pass it to init()",
      *found);
  check_strategy(strategy);
  // Before Axes below: all ranks must make the same groups.
  check_same(strategy, util_);
  strategy_ = strategy;
  axes_ = Axes(strategy_);
  set_current_hybrid_mesh(axes_.hybrid);
}

DistributedOptimizer Fleet::distributed_optimizer(
    torch::optim::Optimizer& optimizer,
    const std::optional<DistributedStrategy>& strategy) {
  if (strategy) {
    replace_strategy(*strategy);
  }
  return DistributedOptimizer(optimizer, strategy_, axes_, registry_);
}

std::shared_ptr<Fleet> init(
    const JobRole& role,
    const DistributedStrategy& strategy,
    const InitOptions& options) {
  if (has_servers(role)) {
    return start_with_servers(role, strategy, options);
  }
  check_collective(role, strategy);
  check_strategy(strategy);
  const auto world = join_world(role, options);
  return start(*world, role, strategy);
}

std::shared_ptr<Fleet> init(
    bool is_collective,
    const DistributedStrategy& strategy,
    const InitOptions& options) {
  // Checks before it joins: a wrong setting fails at once, not after the wait
  // for the other ranks.
  const JobRole before = adopt_role(is_collective);
  if (has_servers(before)) {
    return start_with_servers(before, strategy, options);
  }
  check_collective(before, strategy);
  check_strategy(strategy);
  const auto world = init_parallel_env(options);
  // Reads the environment again: joining may have assigned ranks by arrival and
  // found out which ranks share a host.
  return start(*world, adopt_role(is_collective), strategy);
}

std::shared_ptr<Fleet> current_fleet(const char* op) {
  const auto world = current_world();
  auto fleet = world ? current_of(*world).fleet : nullptr;
  ARGOSY_CHECK(fleet, "[{}] call fleet::init() first", op);
  return fleet;
}

namespace {

const JobRole& role_of(const char* op) {
  return current_fleet(op)->role(); // the world keeps the fleet alive
}

} // namespace

bool is_first_worker() {
  return role_of("fleet.is_first_worker").is_first_worker();
}

bool is_worker() {
  return role_of("fleet.is_worker").is_worker();
}

bool is_server() {
  return role_of("fleet.is_server").is_server();
}

int worker_index() {
  return role_of("fleet.worker_index").worker_index();
}

int worker_num() {
  return role_of("fleet.worker_num").worker_num();
}

int server_index() {
  return role_of("fleet.server_index").server_index();
}

int server_num() {
  return role_of("fleet.server_num").server_num();
}

int node_num() {
  return role_of("fleet.node_num").node_num();
}

int local_rank() {
  return role_of("fleet.local_rank").local_rank();
}

std::vector<std::string> worker_endpoints() {
  return role_of("fleet.worker_endpoints").worker_endpoints();
}

std::vector<std::string> server_endpoints() {
  return role_of("fleet.server_endpoints").server_endpoints();
}

const UtilBase& util() {
  return current_fleet("fleet.util")->util();
}

void barrier_worker() {
  current_fleet("fleet.barrier_worker")->barrier_worker();
}

HybridMeshPtr hybrid_mesh() {
  return current_fleet("fleet.hybrid_mesh")->axes().hybrid;
}

int data_rank() {
  return current_fleet("fleet.data_rank")->axes().hybrid->data_ranks().rank;
}

int data_num() {
  return current_fleet("fleet.data_num")->axes().hybrid->data_ranks().size;
}

// Without servers there is nothing to start or stop: both only check that
// init() was called.
void init_worker() {
  const auto fleet = current_fleet("fleet.init_worker");
  if (find_ps_job()) {
    init_worker(ps_worker_options(fleet->strategy()));
  }
}

void stop_worker() {
  current_fleet("fleet.stop_worker");
  if (const auto job = find_ps_job()) {
    stop_ps_worker(*job);
  }
}

PipelineModel distributed_model(const pipeline::PipelineLayer& layers) {
  return current_fleet("fleet.distributed_model")->distributed_model(layers);
}

PipelineModel distributed_model(
    const std::shared_ptr<pipeline::StageModel>& stage,
    std::vector<pipeline::LossFn> loss_fns) {
  return current_fleet("fleet.distributed_model")
      ->distributed_model(stage, std::move(loss_fns));
}

DistributedOptimizer distributed_optimizer(
    torch::optim::Optimizer& optimizer,
    const std::optional<DistributedStrategy>& strategy) {
  return current_fleet("fleet.distributed_optimizer")
      ->distributed_optimizer(optimizer, strategy);
}

} // namespace argosy::fleet
