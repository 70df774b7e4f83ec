import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class SomaTestPackage(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = ("CMakeDeps",)

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        # Builds in a temporary folder, so that the checkout does not change.
        if not self.conf.get("tools.cmake.cmake_layout:test_folder"):
            self.conf.define("tools.cmake.cmake_layout:test_folder", "$TMP")
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # it would be written beside the sources
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.cpp.build.bindir, "consumer"), env="conanrun")
