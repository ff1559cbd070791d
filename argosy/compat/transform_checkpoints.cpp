#include "argosy/compat/transform_checkpoints.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/compat/rank_file.h"
#include "argosy/compat/saved_slices.h"

namespace argosy {

using compat::JobLayout;
using compat::RankFile;
using compat::SavedSlices;
using compat::TransformPlanner;
using std::filesystem::path;

namespace {

struct Jobs {
  JobLayout from;
  JobLayout to;
  std::optional<int> segment; // the stage, if only that is transformed
};

// `last_rank`: the highest that has a file, if that is known.
Jobs jobs_of(
    const StrategyArgument& src, const StrategyArgument& dst, int last_rank) {
  ARGOSY_CHECK(
      src || dst, "[transform] no strategies, expected one of the two");
  Jobs jobs;
  if (src) {
    jobs.from = compat::job_layout(*src);
    if (!compat::has_all_stages(*src) &&
        (compat::stage_of(*src) > 0 || last_rank >= jobs.from.devices)) {
      jobs.from = compat::job_layout(*src, true);
      jobs.segment = compat::stage_of(*src);
    }
  }
  if (dst) {
    jobs.to = compat::job_layout(*dst);
  }
  if (!src) {
    jobs.from = compat::unsharded_like(jobs.to);
  } else if (!dst) {
    jobs.to = compat::unsharded_like(jobs.from);
  }
  ARGOSY_CHECK(
      !jobs.segment || (dst && jobs.to.num_stages == 1),
      "[transform] the source strategy is that of stage {} alone, expected a "
      "target strategy without stages, or a merged source strategy "
      "(merge_pipeline_strategies)",
      jobs.segment.value_or(0));
  return jobs;
}

void warn_of(const TransformReport& report) {
  if (report != TransformReport{}) {
    log::warn("[transform] parameters are left out; {}", report);
  }
}

// src_dir/rank_N/<last file>, by N.
std::map<int, path> files_by_rank(const path& src_dir) {
  std::map<int, path> files;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(src_dir, error)) {
    const std::string name = entry.path().filename().string();
    const auto rank =
        name.starts_with("rank_") ? parse_int(name.substr(5)) : std::nullopt;
    if (!rank || *rank < 0 || *rank > 1 << 24) {
      continue;
    }
    if (const auto file = compat::last_file_of(entry.path())) {
      files[static_cast<int>(*rank)] = *file;
    }
  }
  if (files.empty()) {
    throw CheckpointError(
        str("[transform] ",
            src_dir.string(),
            ": no files, expected rank_0/*.safetensors"));
  }
  return files;
}

void write_rank(
    const SavedSlices& slices,
    const TransformPlanner& planner,
    int rank,
    const path& file) {
  const compat::RankPlan plan = planner.plan(rank);
  compat::write_rank_file(
      file, compat::sources_of(slices, plan), {{"format", "pt"}});
}

CheckpointTensor tensor_of(const RankFile::Entry& entry) {
  return {entry.info, {entry.bytes.begin(), entry.bytes.end()}};
}

bool is_segment(const path& file) {
  const std::string name = file.stem().string();
  const std::size_t part = name.rfind("_part");
  return (file.extension() == ".safetensors" || file.extension() == ".ckpt") &&
      part != std::string::npos && parse_int(name.substr(part + 5));
}

std::vector<RankFile::Entry> entries_of(
    const std::vector<CheckpointTensor>& tensors) {
  std::vector<RankFile::Entry> entries;
  for (const CheckpointTensor& tensor : tensors) {
    ARGOSY_CHECK(
        tensor.info.name == tensors[0].info.name,
        "[transform] slices of {} and {}, expected those of one parameter",
        tensors[0].info.name,
        tensor.info.name);
    entries.push_back({tensor.info, tensor.bytes});
  }
  return entries;
}

// SavedSlices that follow one another along dim 0, each as long as it is.
ParallelStrategy rows_strategy(const std::vector<CheckpointTensor>& slices) {
  ParallelLayout layout;
  layout.dev_matrix = {static_cast<std::int64_t>(slices.size())};
  checkpoint::Shape shape = slices[0].info.shape;
  ARGOSY_CHECK(
      !shape.empty() || slices.size() == 1,
      "[transform] {} has no dims to concatenate {} slices along",
      slices[0].info,
      slices.size());
  layout.tensor_map.resize(shape.size());
  if (!shape.empty()) {
    layout.tensor_map[0] = {0};
    shape[0] = 0;
    for (const CheckpointTensor& slice : slices) {
      ARGOSY_CHECK(
          slice.info.shape.size() == shape.size(),
          "[transform] {} and {}, expected equally many dims",
          slices[0].info,
          slice.info);
      layout.param_split_shape.push_back(slice.info.shape[0]);
      shape[0] += slice.info.shape[0];
    }
  }
  layout.tensor_shape = shape;
  return {0, {{slices[0].info.name, std::move(layout)}}};
}

} // namespace

std::vector<int> rank_list_for_transform(
    int rank, const StrategyArgument& src, const StrategyArgument& dst) {
  const Jobs jobs = jobs_of(src, dst, -1);
  const TransformPlanner planner(jobs.from, jobs.to);
  std::vector<int> ranks = planner.plan(rank).source_ranks();
  std::ranges::reverse(ranks);
  return ranks;
}

TransformReport transform_checkpoint_by_rank(
    int rank,
    const std::map<int, path>& checkpoint_files,
    const path& save_file,
    const StrategyArgument& src,
    const StrategyArgument& dst) {
  ARGOSY_CHECK(!checkpoint_files.empty(), "[transform] no checkpoint files");
  const Jobs jobs = jobs_of(src, dst, checkpoint_files.rbegin()->first);
  const SavedSlices slices(checkpoint_files, [](int missing) {
    return str("the file of rank ", missing, ", which is not given");
  });
  const TransformPlanner planner = slices.planner(jobs.from, jobs.to, !src);
  write_rank(slices, planner, rank, save_file);
  warn_of(planner.report());
  return planner.report();
}

TransformReport transform_checkpoints(
    const path& src_dir,
    const path& dst_dir,
    const std::string& ckpt_prefix,
    const StrategyArgument& src,
    const StrategyArgument& dst) {
  const auto files = files_by_rank(src_dir);
  const Jobs jobs = jobs_of(src, dst, files.rbegin()->first);
  const SavedSlices slices(files, [&](int missing) {
    return (src_dir / str("rank_", missing) / "*.safetensors").string();
  });
  const TransformPlanner planner = slices.planner(jobs.from, jobs.to, !src);
  const std::string end =
      str(jobs.segment ? str("_part", *jobs.segment) : "", ".safetensors");
  for (int rank = 0; rank < jobs.to.num_ranks(); ++rank) {
    write_rank(
        slices,
        planner,
        rank,
        dst_dir / str("rank_", rank) / str(ckpt_prefix, rank, end));
  }
  warn_of(planner.report());
  return planner.report();
}

ParameterDict load_checkpoint(const path& file) {
  ParameterDict dict;
  const RankFile rank_file(file);
  for (const auto& [name, entry] : rank_file.tensors()) {
    dict.emplace(name, tensor_of(entry));
  }
  return dict;
}

ParameterDict load_segmented_checkpoints(const path& dir) {
  std::vector<path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    if (is_segment(entry.path())) {
      files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    throw CheckpointError(
        str("[checkpoint] ",
            dir.string(),
            ": no files, expected *_part<stage>.safetensors"));
  }
  std::ranges::sort(files);
  ParameterDict dict;
  for (const path& file : files) {
    const RankFile rank_file(file);
    for (const auto& [name, entry] : rank_file.tensors()) {
      const auto [known, is_new] = dict.emplace(name, tensor_of(entry));
      if (!is_new && known->second != tensor_of(entry)) {
        throw CheckpointError(
            str("[checkpoint] ",
                file.string(),
                ": ",
                name,
                " differs from that of another stage"));
      }
    }
  }
  return dict;
}

TransformReport load_distributed_checkpoint(
    const std::vector<path>& checkpoint_filenames,
    const StrategyArgument& predict,
    const StrategyArgument& train,
    int rank,
    const TakeTensor& take) {
  const Jobs jobs = jobs_of(train, predict, -1);
  const auto count = static_cast<int>(checkpoint_filenames.size());
  ARGOSY_CHECK(
      count == jobs.from.num_ranks(),
      "[load_distributed_checkpoint] {} files, expected one for each of the {} "
      "ranks of the training strategy",
      count,
      jobs.from.num_ranks());
  std::map<int, path> files;
  for (int i = 0; i < count; ++i) {
    files[jobs.from.first_rank() + i] =
        checkpoint_filenames[static_cast<std::size_t>(i)];
  }
  const SavedSlices slices(files, {});
  const TransformPlanner planner = slices.planner(jobs.from, jobs.to, !train);
  const compat::RankPlan plan = planner.plan(rank);
  std::vector<std::byte> buffer;
  for (const auto& source : compat::sources_of(slices, plan)) {
    buffer.resize(compat::bytes_of(source.info));
    source.fill(buffer);
    take(source.info, buffer);
  }
  warn_of(planner.report());
  return planner.report();
}

ParameterDict load_distributed_checkpoint(
    const std::vector<path>& checkpoint_filenames,
    const StrategyArgument& predict,
    const StrategyArgument& train,
    int rank) {
  ParameterDict dict;
  load_distributed_checkpoint(
      checkpoint_filenames,
      predict,
      train,
      rank,
      [&](const checkpoint::TensorInfo& info,
          std::span<const std::byte> bytes) {
        dict[info.name] = {info, {bytes.begin(), bytes.end()}};
      });
  return dict;
}

CheckpointTensor merge_sliced_parameter(
    const std::vector<CheckpointTensor>& sliced_parameters,
    const StrategyArgument& strategy) {
  ARGOSY_CHECK(
      !sliced_parameters.empty(), "[merge_sliced_parameter] no slices");
  const std::string& name = sliced_parameters[0].info.name;
  ParallelStrategy one;
  if (strategy) {
    const JobLayout job = compat::job_layout(*strategy);
    const auto found = job.parameters.find(name);
    ARGOSY_CHECK(
        found != job.parameters.end(),
        "[merge_sliced_parameter] the strategy has no parameter {}",
        name);
    one.layouts[name] = found->second.front().layout;
  } else {
    one = rows_strategy(sliced_parameters);
  }
  const JobLayout from = compat::job_layout(one);
  ARGOSY_CHECK(
      static_cast<std::size_t>(from.num_ranks()) == sliced_parameters.size(),
      "[merge_sliced_parameter] {} slices of {}, expected {}",
      sliced_parameters.size(),
      name,
      from.num_ranks());
  const SavedSlices slices(entries_of(sliced_parameters));
  const TransformPlanner planner =
      slices.planner(from, compat::unsharded_like(from), false);
  const compat::ParameterPlan plan = planner.plan(0).parameters.at(0);
  CheckpointTensor whole{slices.info_of(plan), {}};
  whole.bytes.resize(compat::bytes_of(whole.info));
  slices.fill(plan, whole.bytes);
  return whole;
}

} // namespace argosy
