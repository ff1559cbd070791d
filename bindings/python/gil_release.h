#pragma once

#include <Python.h>

namespace argosy::python {

// Releases the GIL while in scope, if this thread holds it. Destructors may run
// with or without it.
class GilRelease {
 public:
  GilRelease() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      state_ = PyEval_SaveThread();
    }
  }
  ~GilRelease() {
    if (state_ != nullptr) {
      PyEval_RestoreThread(state_);
    }
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

} // namespace argosy::python
