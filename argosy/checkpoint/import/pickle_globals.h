#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "argosy/checkpoint/import/pickle_value.h"

// The classes and functions that pickles may name, and what becomes of their
// calls.
namespace argosy::checkpoint {

// Whether the list has it: "torch._utils._rebuild_tensor_v2".
bool is_known_global(std::string_view name);

// The value of calling a class or function of the list. Throws InvalidArgument
// for arguments that it does not take.
PickleValue& call_global(
    Pickle& pickle,
    std::string_view name,
    const std::vector<const PickleValue*>& arguments);

// What torch calls a type of elements: "float32" of "torch.float32". None for a
// type that checkpoints do not have.
std::optional<DType> dtype_of_torch(std::string_view name);
std::string_view torch_name(DType dtype);
// "FloatStorage"; empty for types that have none.
std::string_view storage_class(DType dtype);

// The storage of a persistent id ("storage", type, key, location, elements).
// Throws InvalidArgument for other ids.
PickleValue& storage_of_id(Pickle& pickle, const PickleValue& id);

} // namespace argosy::checkpoint
