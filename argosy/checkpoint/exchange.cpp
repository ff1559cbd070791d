#include "argosy/checkpoint/exchange.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "argosy/comm/codec.h"
#include "argosy/comm/objects.h"
#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"

namespace argosy::comm {

template <>
struct Codec<dtensor::Box> {
  static void encode(const dtensor::Box& box, std::string& bytes) {
    encode_to(bytes, box.offset, box.size);
  }
  static dtensor::Box decode(ByteReader& reader) {
    auto offset = reader.read<dtensor::Shape>();
    return {std::move(offset), reader.read<dtensor::Shape>()};
  }
};

template <>
struct Codec<checkpoint::TensorInfo> {
  static void encode(const checkpoint::TensorInfo& info, std::string& bytes) {
    encode_to(bytes, info.name, info.dtype, info.shape);
  }
  static checkpoint::TensorInfo decode(ByteReader& reader) {
    auto name = reader.read<std::string>();
    const auto dtype = reader.read<checkpoint::DType>();
    return {std::move(name), dtype, reader.read<dtensor::Shape>()};
  }
};

template <>
struct Codec<checkpoint::Description::Slot> {
  using Slot = checkpoint::Description::Slot;
  static void encode(const Slot& slot, std::string& bytes) {
    encode_to(bytes, slot.info, slot.boxes, slot.from_first, slot.frozen);
  }
  static Slot decode(ByteReader& reader) {
    Slot slot;
    slot.info = reader.read<checkpoint::TensorInfo>();
    slot.boxes = reader.read<std::vector<dtensor::Box>>();
    slot.from_first = reader.read<bool>();
    slot.frozen = reader.read<bool>();
    return slot;
  }
};

} // namespace argosy::comm

namespace argosy::checkpoint {

namespace {

// A text, or the error that there is instead.
struct Outcome {
  std::string text;
  std::string error;
};

Outcome run_caught(const std::function<std::string()>& make) {
  try {
    return {make(), {}};
  } catch (const std::exception& error) {
    return {{}, without_rank_label(error.what())};
  }
}

// For a rank alone: the same exceptions as with others, without their ranks.
std::string run_alone(
    const char* op, const std::function<std::string()>& make) {
  try {
    return make();
  } catch (const CheckpointError&) {
    throw;
  } catch (const InvalidArgument&) {
    throw;
  } catch (const Error& error) {
    throw CheckpointError(
        str_format("[checkpoint.{}] {}", op, without_rank_label(error.what())));
  }
}

std::string packed(const Outcome& outcome) {
  return (outcome.error.empty() ? '+' : '-') +
      (outcome.error.empty() ? outcome.text : outcome.error);
}

// So that errors of operations say what they are for.
OpLabel label_of(const char* op) {
  return OpLabel(str("checkpoint.", op));
}

// Throws if one of the texts is an error, and unpacks the others.
std::vector<std::string> unpacked(
    const char* op, std::vector<std::string> texts) {
  std::string errors;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const bool failed = texts[rank].empty() || texts[rank].front() == '-';
    texts[rank].erase(0, 1);
    if (failed) {
      errors +=
          str(errors.empty() ? "" : "; ", "rank ", rank, ": ", texts[rank]);
    }
  }
  if (!errors.empty()) {
    throw CheckpointError(str_format("[checkpoint.{}] {}", op, errors));
  }
  return texts;
}

} // namespace

int Ranks::rank() const {
  return group_ != nullptr ? group_->rank() : 0;
}

int Ranks::size() const {
  return group_ != nullptr ? group_->nranks() : 1;
}

std::vector<int> Ranks::hosts() const {
  const auto names = all_gather("hosts", [] {
    char name[256] = {};
    ::gethostname(name, sizeof(name) - 1);
    return std::string(name);
  });
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const std::string& name : names) {
    hosts.push_back(
        numbers.emplace(name, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

std::vector<std::string> Ranks::all_gather(
    const char* op, const std::function<std::string()>& make) const {
  if (size() == 1) {
    return {run_alone(op, make)};
  }
  const LabelScope label(label_of(op));
  return unpacked(op, comm::all_gather_bytes(packed(run_caught(make)), group_));
}

std::string Ranks::from_first(
    const char* op, const std::function<std::string()>& make) const {
  if (size() == 1) {
    return run_alone(op, make);
  }
  const LabelScope label(label_of(op));
  std::vector<std::string> texts(1);
  if (is_first()) {
    texts[0] = packed(run_caught(make));
  }
  comm::broadcast_bytes(texts, group_->ranks().front(), group_);
  return unpacked(op, std::move(texts))[0];
}

void Ranks::agree(const char* op, const std::function<void()>& action) const {
  all_gather(op, [&] {
    action();
    return std::string();
  });
}

Description describe(const Contents& contents) {
  Description description;
  for (const Contents::Slot& slot : contents.slots()) {
    Description::Slot described{slot.info, {}, slot.from_first, slot.frozen};
    for (const LocalPiece& piece : slot.pieces) {
      described.boxes.push_back(piece.box);
    }
    description.slots.push_back(std::move(described));
  }
  return description;
}

std::string encode(const Description& description) {
  return comm::encode(description.slots);
}

Description decode_description(const std::string& bytes) {
  return {comm::decode<std::vector<Description::Slot>>(bytes)};
}

Inventory take_inventory(const std::vector<Description>& descriptions) {
  std::map<std::string, const Description::Slot*> by_name;
  for (const Description& description : descriptions) {
    for (const Description::Slot& slot : description.slots) {
      const auto [known, is_new] = by_name.emplace(slot.info.name, &slot);
      if (!is_new && known->second->info != slot.info) {
        throw CheckpointError(str_format(
            "[checkpoint.save] ranks disagree about a tensor: {} and {}",
            known->second->info,
            slot.info));
      }
    }
  }
  Inventory all;
  std::map<std::string, std::uint32_t> numbers;
  for (const auto& [name, slot] : by_name) {
    numbers[name] = static_cast<std::uint32_t>(all.tensors.size());
    all.tensors.push_back(slot->info);
    all.frozen.push_back(slot->frozen);
  }
  for (const Description& description : descriptions) {
    auto& holdings = all.holdings.emplace_back();
    auto& sources = all.sources.emplace_back();
    for (std::size_t s = 0; s < description.slots.size(); ++s) {
      const Description::Slot& slot = description.slots[s];
      for (std::size_t p = 0; p < slot.boxes.size(); ++p) {
        holdings.push_back(
            {numbers.at(slot.info.name), slot.boxes[p], slot.from_first});
        sources.push_back({s, p});
      }
    }
  }
  return all;
}

} // namespace argosy::checkpoint
