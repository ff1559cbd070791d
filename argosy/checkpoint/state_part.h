#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/checkpoint/local_pieces.h"
#include "argosy/checkpoint/manifest.h"
#include "argosy/training/held_part.h"

namespace argosy::checkpoint {

// What this rank gives to a checkpoint. Names are those in the manifest.
class Contents {
 public:
  struct Slot {
    TensorInfo info;
    std::vector<LocalPiece> pieces;
    bool from_first = false; // see Holding
    bool frozen = false;     // rarely changes: goes to a file of its own
  };

  explicit Contents(int rank) : rank_(rank) {}

  // This rank's part of a tensor. Other ranks may give other parts, or the
  // same.
  void tensor(
      const std::string& name,
      const training::HeldPart& part,
      bool from_first = false,
      bool frozen = false);
  // A tensor of this rank: "rank/<rank>/<name>".
  void tensor_of_rank(const std::string& name, const at::Tensor& tensor);
  // Bytes that all ranks have alike; the first rank's are taken.
  void bytes(const std::string& name, std::string_view bytes);
  // Bytes of this rank: "rank/<rank>/<name>".
  void bytes_of_rank(const std::string& name, std::string_view bytes);
  // A value that all ranks have alike; the first rank's is taken.
  void value(const std::string& name, nlohmann::json value);

  const std::vector<Slot>& slots() const { return slots_; }
  const nlohmann::json& values() const { return values_; }
  int rank() const { return rank_; }

 private:
  int rank_;
  std::vector<Slot> slots_;
  nlohmann::json values_ = nlohmann::json::object();
};

// What this rank asks of a checkpoint. Nothing is read until all parts of the
// state have asked, and nothing of the user's changes until all ranks have read
// and verified all that they asked for.
class Request {
 public:
  struct Slot {
    std::size_t tensor = 0;         // index in Manifest::tensors
    std::vector<LocalPiece> pieces; // filled with the values
    // The tensors are the user's: their values are staged until all is there.
    bool in_place = true;
  };

  // Which tensors to load, and under which names the checkpoint has them.
  struct Selection {
    std::function<bool(const std::string& name)> wanted;        // null: all
    std::function<std::string(const std::string& name)> rename; // null: alike
    bool cast = false; // to the types of the state
  };

  Request(const Manifest& manifest, int rank, int size, Selection selection)
      : manifest_(manifest),
        rank_(rank),
        size_(size),
        selection_(std::move(selection)) {}

  const Manifest& manifest() const { return manifest_; }
  int rank() const { return rank_; }
  int size() const { return size_; } // ranks of this world

  // Asks for this rank's part of a tensor. Returns whether the checkpoint has
  // it; if not, the name is reported as missing. Throws CheckpointError if it
  // has another shape there.
  bool tensor(
      const std::string& name,
      const training::HeldPart& part,
      bool in_place = true);
  // Asks for the tensors of this rank whose names begin with "<name>/", in new
  // memory, and calls `take` with them, by the rest of their names, once they
  // are there; not if there are none.
  void tensors_of_rank(
      const std::string& name,
      std::function<void(const std::map<std::string, at::Tensor>&)> take);
  // A tensor under another name in the checkpoint, if it is not there under its
  // own: weights that share memory in one layout and not in another.
  void alias(const std::string& name, const std::string& other);
  // Empty if there is none.
  std::string other_name(const std::string& name) const;

  // Whether the checkpoint has the tensor, under its own name or an alias; the
  // name counts as asked for.
  const TensorRecord* find(const std::string& name);
  // Whether the load is to bring it; what it leaves out keeps its values.
  bool is_wanted(const std::string& name) const;

  // Null if the checkpoint does not have it, which is reported.
  const nlohmann::json* value(const std::string& name);
  // Calls `take` with the bytes once they are there.
  bool bytes(
      const std::string& name, std::function<void(const std::string&)> take);

  // Runs `action` after all values have been copied. It should not throw.
  void after(std::function<void()> action);

  void missing(const std::string& name);
  // Counts as asked for: not reported as left over.
  void known(const std::string& name) { asked_[name] = true; }

  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<std::function<void()>>& actions() const { return actions_; }
  const std::vector<std::string>& missing() const { return missing_; }
  // Tensors of the checkpoint that nobody has asked for, except those of ranks
  // and those that the selection leaves out.
  std::vector<std::string> left_over() const;

 private:
  const TensorRecord* lookup(const std::string& name);
  const TensorRecord* find_named(const std::string& name);
  void check_type(
      const TensorRecord& found, const training::HeldPart& part) const;

  const Manifest& manifest_;
  const int rank_;
  const int size_;
  const Selection selection_;
  std::vector<Slot> slots_;
  std::vector<std::function<void()>> actions_;
  std::vector<std::string> missing_;
  std::map<std::string, bool> asked_;
  std::map<std::string, std::string> aliases_;
};

// A part of the state of training: a model, an optimizer, a loader. Implement
// it for what State does not know.
class StatePart {
 public:
  virtual ~StatePart() = default;

  // Called on all ranks alike; may be collective.
  virtual void save(Contents& contents) = 0;
  // Asks for what it needs; must not change anything before after().
  virtual void load(Request& request) = 0;
};

} // namespace argosy::checkpoint
