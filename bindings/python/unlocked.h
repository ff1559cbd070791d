#pragma once

#include <Python.h>

namespace argosy::python {

// Lets other threads run Python while this one waits, if it holds Python's lock
// at all: destructors may be called either way.
class UnlockedPython {
 public:
  UnlockedPython() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      state_ = PyEval_SaveThread();
    }
  }
  ~UnlockedPython() {
    if (state_ != nullptr) {
      PyEval_RestoreThread(state_);
    }
  }
  UnlockedPython(const UnlockedPython&) = delete;
  UnlockedPython& operator=(const UnlockedPython&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

} // namespace argosy::python
